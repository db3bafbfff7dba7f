package wire

import (
	"bytes"
	"strconv"
)

// Language tells what a client is written in.
type Language uint8

// Languages, in the numbering of the RocketMQ remoting protocol.
const (
	Java Language = iota
	CPP
	DotNet
	Python
	Delphi
	Erlang
	Ruby
	OtherLanguage
	HTTP
	Go
	PHP
	OMS
	Rust
	NodeJS

	// UnknownLanguage stands for every name and number not listed. It is no error.
	UnknownLanguage Language = 255
)

var languageNames = [...]string{
	Java: "JAVA", CPP: "CPP", DotNet: "DOTNET", Python: "PYTHON", Delphi: "DELPHI", Erlang: "ERLANG",
	Ruby: "RUBY", OtherLanguage: "OTHER", HTTP: "HTTP", Go: "GO", PHP: "PHP", OMS: "OMS",
	Rust: "RUST", NodeJS: "NODE_JS",
}

// String returns the name used in JSON headers.
func (l Language) String() string {
	if int(l) < len(languageNames) {
		return languageNames[l]
	}
	return "Language(" + strconv.Itoa(int(l)) + ")"
}

// known maps every number that has no name to UnknownLanguage.
func (l Language) known() Language {
	if int(l) < len(languageNames) {
		return l
	}
	return UnknownLanguage
}

// languageNamed accepts a name in any letter case.
func languageNamed(name []byte) Language {
	for i, n := range languageNames {
		if len(n) == len(name) && bytes.EqualFold(name, []byte(n)) {
			return Language(i)
		}
	}
	return UnknownLanguage
}
