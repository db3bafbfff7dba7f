package config

import (
	"strings"
	"testing"
)

// TestEmptyNumbers: a number that is given as nothing is a mistake like any other, unless nothing has a meaning for
// its key. Taken for 0 it would be below what the key allows, such as a period that no ticker can have.
func TestEmptyNumbers(t *testing.T) {
	for name, k := range keys {
		if k.effect != used || k.standard == "" || strings.Trim(k.standard, "0123456789") != "" || strings.HasPrefix(name, "mappedFileSize") {
			continue
		}
		_, _, err := Parse([]byte(name+"=\n"), env(), nil)
		if err == nil || !strings.Contains(err.Error(), File+": "+name+"=: want ") {
			t.Errorf("%s= : %v", name, err)
		}
	}
	for _, name := range []string{"namesrvListenPort", "haListenPort", "mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue"} {
		if _, _, err := Parse([]byte(name+"=\n"), env(), nil); err != nil {
			t.Errorf("%s may be given as nothing: %v", name, err)
		}
	}
}
