package topic

import (
	"fmt"
	"strings"
)

// Prefixes of the topics that belong to a consumer group.
const (
	RetryPrefix = "%RETRY%"
	DLQPrefix   = "%DLQ%"
)

// Limits of names in characters; only ASCII passes, so bytes are the same.
const (
	topicChars      = 127
	groupTopicChars = 255 // retry and dead letter topics
	groupChars      = 120
)

// legalName is how the stock broker words the allowed characters in its remarks.
const legalName = "^[%|a-zA-Z0-9_-]+$"

// Retry names the retry topic of a group.
func Retry(group string) string { return RetryPrefix + group }

// DLQ names the dead letter topic of a group.
func DLQ(group string) string { return DLQPrefix + group }

// NameError tells why a name is refused, in the words of the stock broker 5.5.0: it is a remark for the client,
// who gets code 29.
type NameError string

func (e NameError) Error() string { return string(e) }

func refuse(format string, args ...any) error { return NameError(fmt.Sprintf(format, args...)) }

// CheckName returns a NameError if name cannot be a topic. A name that passes is safe as one path element.
func CheckName(name string) error {
	if strings.TrimSpace(name) == "" {
		return refuse("The specified topic is blank.")
	}
	if !legal(name) {
		return refuse("The specified topic: %s, contains illegal characters, allowing only %s", name, legalName)
	}
	if strings.HasPrefix(name, RetryPrefix) || strings.HasPrefix(name, DLQPrefix) {
		if len(name) > groupTopicChars {
			return refuse("The specified topic is DLQ or Retry topic: %s, and it's longer than topic max length: %d", name, groupTopicChars)
		}
		return nil
	}
	if len(name) > topicChars {
		return refuse("The specified topic: %s, is longer than topic max length: %d", name, topicChars)
	}
	return nil
}

// CheckGroup is CheckName for the names of consumer and producer groups.
func CheckGroup(name string) error {
	if strings.TrimSpace(name) == "" {
		return refuse("The specified group is blank.")
	}
	if !legal(name) {
		return refuse("The specified group: %s, contains illegal characters, allowing only %s", name, legalName)
	}
	if len(name) > groupChars {
		return refuse("The specified group: %s, is longer than group max length: %d", name, groupChars)
	}
	return nil
}

// legal admits percent, pipe, letters, digits, underscore and dash.
func legal(name string) bool {
	for i := range len(name) {
		if !legalChar[name[i]] {
			return false
		}
	}
	return name != ""
}

var legalChar = func() (legal [256]bool) {
	for _, c := range []byte("%|_-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		legal[c] = true
	}
	return legal
}()
