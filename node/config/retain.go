package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// retaining reads which messages go, and when the disk is too full to take more.
func (p *parser) retaining(c *Config) {
	r := &c.Retention
	const hours = 100 * 365 * 24
	r.Keep = time.Duration(p.number("fileReservedTime", 1, hours)) * time.Hour
	r.Hours = p.hours("deleteWhen")
	r.MaxBytes = p.number("logRetentionBytes", 0, 1<<62)
	r.MinFreeBytes = p.number("diskMinFreeBytes", 0, 1<<62)
	r.UsedPercent = int(p.number("diskMaxUsedSpaceRatio", 1, 100))
	r.ForcePercent = int(p.number("diskSpaceCleanForciblyRatio", 1, 100))
	r.WarnPercent = int(p.number("diskSpaceWarningLevelRatio", 1, 100))
	p.ordered("diskMaxUsedSpaceRatio", "diskSpaceCleanForciblyRatio", r.UsedPercent, r.ForcePercent)
	p.ordered("diskSpaceCleanForciblyRatio", "diskSpaceWarningLevelRatio", r.ForcePercent, r.WarnPercent)
	r.KeepYoung = !p.yes("cleanFileForciblyEnable")
	r.BatchMax = int(p.number("deleteFileBatchMax", 1, 1<<20))
	r.Pause = p.ms("deleteCommitLogFilesInterval", 0)
	c.RetainEvery = p.ms("cleanResourceInterval", 10)
	if c.SegmentBytes > 0 && r.MaxBytes > 0 && r.MaxBytes < 2*c.SegmentBytes {
		p.complain("logRetentionBytes", fmt.Sprintf("two files of %d bytes at least (mappedFileSizeCommitLog): the newest file never goes; 0 is no limit", c.SegmentBytes))
	}
	if r.KeepYoung && r.MaxBytes > 0 {
		p.warn("cleanFileForciblyEnable", "logRetentionBytes removes files before their age in any case")
	}
}

// ordered complains about a level of the disk that must come before another.
func (p *parser) ordered(name, next string, level, nextLevel int) {
	if level > nextLevel {
		p.complain(name, fmt.Sprintf("at most %s=%d: first old files go, then any files, and only then messages are refused", next, nextLevel))
	}
}

// hours returns a list of hours of the day joined by semicolons.
func (p *parser) hours(name string) (hours []int) {
	for part := range strings.SplitSeq(p.text(name), ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		h, err := strconv.Atoi(part)
		if err != nil || h < 0 || h > 23 {
			p.complain(name, "hours from 0 to 23, several joined by semicolons")
			return nil
		}
		hours = append(hours, h)
	}
	if len(hours) == 0 {
		p.complain(name, "hours from 0 to 23, several joined by semicolons")
	}
	return hours
}
