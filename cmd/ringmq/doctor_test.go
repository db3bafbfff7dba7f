package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ringmq/node/doctor"
)

// TestDoctorsVerdictIsTheExitCode: scripts go by it.
func TestDoctorsVerdictIsTheExitCode(t *testing.T) {
	for verdict, want := range map[doctor.Verdict]int{doctor.OK: 0, doctor.Note: 0, doctor.Warn: 1, doctor.Bad: 2} {
		code := 0
		var e *exit
		if err := printExamined(io.Discard, doctor.Report{Worst: verdict}, true, false); errors.As(err, &e) {
			code = e.code
		} else if err != nil {
			t.Error(err)
		}
		if code != want {
			t.Errorf("%v: %d, want %d", verdict, code, want)
		}
	}
}

// TestDoctorReadsTheConfiguration: the directories and limits of the node that is meant are looked at.
func TestDoctorReadsTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "broker.conf")
	text := "storePathRootDir=" + dir + "/data\nstorePathCommitLog=" + dir + "/data/commitlog," + dir + "/more\nfileReservedTime=5\nioEngine=posix\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := readConfig(conf, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	o, err := doctorOptions(&c)
	if err != nil || o.Dir != dir+"/data" || !slices.Equal(o.LogDirs, []string{dir + "/more"}) || o.Keep.Hours() != 5 || !o.NoRing || !o.FlushSync || o.ForcePercent != 85 {
		t.Errorf("%+v %v", o, err)
	}

	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetArgs([]string{"doctor", "-c", conf, "--no-measure"})
	var e *exit
	if err := root.Execute(); err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "not wanted: ioEngine=posix") || !strings.Contains(out.String(), "fdatasync of "+dir+"/data: not measured") {
		t.Errorf("%s", &out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left %v %v", left, err)
	}
	root.SetArgs([]string{"doctor", "-c", filepath.Join(dir, "none")})
	if err := root.Execute(); !errors.As(err, &e) || e.code != exitNotExamined {
		t.Errorf("without a configuration: %v", err)
	}
}
