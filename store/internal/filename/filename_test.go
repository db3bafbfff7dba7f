package filename

import "testing"

func TestBase(t *testing.T) {
	for _, base := range []int64{0, 4096, 1 << 40, 1<<63 - 1} {
		if got, err := Base(Of(base)); got != base || err != nil {
			t.Errorf("%s is of %d, %v", Of(base), got, err)
		}
	}
	for _, name := range []string{"", "0", "0000000000000000000", "000000000000000000000", "-0000000000000000001", "99999999999999999999", "0000000000000004096.bak", "000000000000000000ff"} {
		if got, err := Base(name); err == nil {
			t.Errorf("%q is of %d", name, got)
		}
	}
}
