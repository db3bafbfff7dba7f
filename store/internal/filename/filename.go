// Package filename says how the files of the log and of queues are called: 20 decimal digits of the offset of their
// first byte (stock broker 5.5.0).
package filename

import (
	"fmt"
	"strconv"
)

const digits = 20

// Of returns the name of the file that begins at base.
func Of(base int64) string { return fmt.Sprintf("%0*d", digits, base) }

// Base returns where the file with a name begins.
func Base(name string) (int64, error) {
	n, err := strconv.ParseInt(name, 10, 64)
	if err != nil || n < 0 || len(name) != digits {
		return 0, fmt.Errorf("store: file %q: want a name of %d digits", name, digits)
	}
	return n, nil
}
