package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"ringmq/store/inspect"
	"ringmq/store/record"
)

// How bodies are shown.
const (
	bodyText = "text"
	bodyHex  = "hex"
	bodySize = "size"
)

// showOptions say how messages are printed.
type showOptions struct {
	body  string
	limit int
	json  bool
}

// shownMessage is a message as JSON. A body that is no UTF-8 is shown in hex, whatever was asked for.
type shownMessage struct {
	Offset         int64             `json:"offset"`
	Size           int               `json:"size"`
	Topic          string            `json:"topic"`
	QueueID        int32             `json:"queueId"`
	QueueOffset    int64             `json:"queueOffset"`
	MsgID          string            `json:"msgId"`
	StoreTime      string            `json:"storeTime"`
	StoreMs        int64             `json:"storeMs"`
	BornTime       string            `json:"bornTime"`
	BornHost       string            `json:"bornHost"`
	StoreHost      string            `json:"storeHost"`
	SysFlag        int32             `json:"sysFlag"`
	Flag           int32             `json:"flag"`
	ReconsumeTimes int32             `json:"reconsumeTimes"`
	PreparedOffset int64             `json:"preparedTransactionOffset"`
	Check          string            `json:"check"`
	Properties     map[string]string `json:"properties"`
	Compression    string            `json:"compression,omitempty"`
	BodyBytes      int               `json:"bodyBytes"` // as stored
	Body           *string           `json:"body,omitempty"`
	BodyHex        *string           `json:"bodyHex,omitempty"`
	BodyCut        bool              `json:"bodyCut,omitempty"` // there is more of it
	BodyError      string            `json:"bodyError,omitempty"`
}

func (o *showOptions) print(out io.Writer, at int64, r *record.Record) error {
	if !o.json {
		_, err := io.WriteString(out, o.line(at, r))
		return err
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(o.message(at, r))
}

func (o *showOptions) message(at int64, r *record.Record) shownMessage {
	m := shownMessage{
		Offset: at, Size: r.Size, Topic: string(r.Topic), QueueID: r.QueueID, QueueOffset: r.QueueOffset,
		MsgID:     string(record.AppendMsgID(nil, r.Store, at)),
		StoreTime: showTime(r.StoreMs), StoreMs: r.StoreMs, BornTime: showTime(r.BornMs), BornHost: r.Born.String(), StoreHost: r.Store.String(),
		SysFlag: r.SysFlag, Flag: r.Flag, ReconsumeTimes: r.ReconsumeTimes, PreparedOffset: r.PreparedOffset,
		Check: r.Check.String(), Properties: map[string]string{}, BodyBytes: len(r.Body),
	}
	for name, value := range record.Props(r.Props) {
		m.Properties[string(name)] = string(value)
	}
	kind, _ := inspect.CompressionOf(r) // Body says it again
	m.Compression = string(kind)
	if o.body == bodySize {
		return m
	}
	body, all, err := inspect.Body(r, o.limit)
	if err != nil {
		m.BodyError = err.Error()
	}
	m.BodyCut = !all
	text := string(body)
	if !all {
		text = wholeRunes(text)
	}
	if o.body == bodyText && utf8.ValidString(text) {
		m.Body = &text
	} else {
		digits := hex.EncodeToString(body)
		m.BodyHex = &digits
	}
	return m
}

// wholeRunes leaves out a character of which the end was cut.
func wholeRunes(text string) string {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if last := text[len(text)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRuneInString(last) {
				return text[:len(text)-i]
			}
			break
		}
	}
	return text
}

// line is a message for people: where it is, when it was stored, its properties, its body. Whatever a
// terminal could mistake for a command is quoted.
func (o *showOptions) line(at int64, r *record.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d  %s/%d@%d  %s", at, quoteOdd(string(r.Topic)), r.QueueID, r.QueueOffset, showTime(r.StoreMs))
	if r.SysFlag != 0 {
		fmt.Fprintf(&b, "  sysFlag=%#x", r.SysFlag)
	}
	if r.ReconsumeTimes != 0 {
		fmt.Fprintf(&b, "  reconsumed=%d", r.ReconsumeTimes)
	}
	for name, value := range record.Props(r.Props) {
		fmt.Fprintf(&b, "  %s=%s", quoteOdd(string(name)), quoteOdd(string(value)))
	}
	b.WriteString("  " + o.bodyOf(r) + "\n")
	return b.String()
}

func (o *showOptions) bodyOf(r *record.Record) string {
	kind, _ := inspect.CompressionOf(r)
	size := showBytes(int64(len(r.Body)))
	if kind != inspect.Plain {
		size += " of " + string(kind)
	}
	if o.body == bodySize {
		return size
	}
	body, all, err := inspect.Body(r, o.limit)
	text := strconv.Quote(string(body))
	if o.body == bodyHex {
		text = hex.EncodeToString(body)
	}
	if !all {
		text += "…"
	}
	if err != nil {
		text += " (" + err.Error() + ")"
	}
	return size + "  " + text
}

// quoteOdd quotes what is not plain printable text without spaces.
func quoteOdd(text string) string {
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` || strings.ContainsAny(text, " ") {
		return quoted
	}
	return text
}
