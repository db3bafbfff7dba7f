package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"ringmq/store"
)

// maxLevels bounds the delay levels: each is a queue of its own.
const maxLevels = 256

// levelUnits are the units of a delay level (stock broker 5.5.0).
var levelUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

// levels returns a list of delays joined by spaces, such as "1s 5m 2h 1d"; the first is level 1.
func (p *parser) levels(name string) store.Levels {
	const most = 10 * 365 * 24 * time.Hour
	fields := strings.Fields(p.text(name))
	levels := make(store.Levels, 0, len(fields))
	for _, f := range fields {
		unit := levelUnits[f[len(f)-1:]]
		n, err := strconv.ParseUint(f[:len(f)-1], 10, 32)
		if err != nil || n == 0 || unit == 0 || time.Duration(n) > most/unit {
			p.complain(name, fmt.Sprintf("numbers from 1 on with s, m, h or d behind them, ten years at most, joined by spaces: not %q", f))
			return nil
		}
		levels = append(levels, time.Duration(n)*unit)
	}
	if len(levels) == 0 || len(levels) > maxLevels {
		p.complain(name, fmt.Sprintf("1 to %d levels", maxLevels))
	}
	return levels
}
