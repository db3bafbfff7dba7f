package interop

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// mavenRuns: two Mavens that fetch into one local repository disturb each other.
var mavenRuns sync.Mutex

// mavenClasspath runs goals of the Maven project in dir and returns the class path of its dependencies. It tries
// without a network first, which is enough from the second run on.
func mavenClasspath(dir string, goals ...string) (string, error) {
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("%w: a JDK 17 and Maven: %v", errMissing, err)
		}
	}
	mavenRuns.Lock()
	defer mavenRuns.Unlock()
	file, err := filepath.Abs(filepath.Join(dir, "target", "classpath"))
	if err != nil {
		return "", err
	}
	var failures []error
	for _, network := range [][]string{{"-o"}, nil} {
		args := append([]string{"-q", "-B", "-Dmdep.outputFile=" + file}, network...)
		mvn := exec.Command("mvn", append(args, goals...)...)
		mvn.Dir = dir
		out, err := mvn.CombinedOutput()
		if err == nil {
			cp, err := os.ReadFile(file)
			return strings.TrimSpace(string(cp)), err
		}
		if network == nil && strings.Contains(string(out), "Could not transfer artifact") {
			return "", fmt.Errorf("%w: the dependencies of %s/pom.xml and a network to fetch them: %s", errMissing, dir, out)
		}
		failures = append(failures, fmt.Errorf("mvn %v in %s: %w\n%s", goals, dir, err, out))
	}
	return "", errors.Join(failures...)
}
