package serve

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoStock means that this machine lacks what a stock broker needs: a JDK, Maven, or the jars and a network to get them.
var ErrNoStock = errors.New("serve: no stock broker")

// StockClasspath has Maven fetch the jars of the stock broker that the project file names, and returns where they are.
// From the second time on it needs no network.
func StockClasspath(pom string) (string, error) {
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("%w: a JDK 17 and Maven: %w", ErrNoStock, err)
		}
	}
	file, err := os.CreateTemp("", "classpath")
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name())
	if err := file.Close(); err != nil {
		return "", err
	}
	var out []byte
	for _, network := range [][]string{{"-o"}, nil} {
		args := append([]string{"-q", "-B", "-f", pom, "-Dmdep.outputFile=" + file.Name(), "dependency:build-classpath"}, network...)
		if out, err = exec.Command("mvn", args...).CombinedOutput(); err == nil {
			cp, err := os.ReadFile(file.Name())
			return strings.TrimSpace(string(cp)), err
		}
	}
	return "", fmt.Errorf("%w: mvn %s: %w\n%s", ErrNoStock, pom, err, out)
}

// Stock starts a stock broker with its data below dir and returns when it has answered a first send. It takes port and the
// ones 2 before and 1 after it, and needs no name server. jvm are the flags of its JVM, settings lines of broker.conf.
func Stock(classpath, dir string, port int, jvm []string, settings ...string) (*Server, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "broker.conf")
	lines := append([]string{
		"brokerName=bench", "brokerClusterName=bench", "brokerId=0", "brokerIP1=127.0.0.1", fmt.Sprint("listenPort=", port),
		fmt.Sprint("haListenPort=", port+1), "storePathRootDir=" + filepath.Join(dir, "store"),
		"storePathCommitLog=" + filepath.Join(dir, "store", "commitlog"),
	}, settings...)
	if err := os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	said, err := os.Create(filepath.Join(dir, "broker.log"))
	if err != nil {
		return nil, err
	}
	defer said.Close() // the process has its own
	args := append(append([]string{}, jvm...), "-Duser.home="+dir, "-cp", classpath, "org.apache.rocketmq.broker.BrokerStartup", "-c", conf)
	cmd := exec.Command("java", args...)
	cmd.Env = append(os.Environ(), "ROCKETMQ_HOME="+dir)
	cmd.Stdout, cmd.Stderr = said, said
	s := &Server{Addr: fmt.Sprint("127.0.0.1:", port)}
	if err := s.Start(cmd, s.SendOne); err != nil {
		text, _ := os.ReadFile(said.Name())
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	return s, nil
}
