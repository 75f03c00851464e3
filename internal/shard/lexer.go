package shard

import (
	"errors"
	"fmt"
	"strings"
)

// tokenKind is what a token is.
type tokenKind uint8

const (
	end tokenKind = iota
	word
	quoted
	or
	sign // any other single byte
)

type token struct {
	kind tokenKind
	text string // of a word; of a string without its quotes; of a sign the byte
	at   int
}

func (t token) is(c byte) bool { return t.kind == sign && t.text[0] == c }

// lexer cuts a text into the tokens of CEL that a selector may have. After an error the text is at
// its end.
type lexer struct {
	text  string
	pos   int
	token token
	err   error
}

// next reads the next token.
func (l *lexer) next() {
	l.space()
	l.token = token{at: l.pos}
	if l.pos == len(l.text) {
		return
	}
	rest := l.text[l.pos:]
	n := 1
	switch c := rest[0]; {
	case c == '\'' || c == '"':
		l.quoted(rest)
		return
	case letter(c):
		for n < len(rest) && (letter(rest[n]) || rest[n] >= '0' && rest[n] <= '9') {
			n++
		}
		l.token.kind = word
	case strings.HasPrefix(rest, "||"):
		n = 2
		l.token.kind = or
	default:
		l.token.kind = sign
	}
	l.token.text = rest[:n]
	l.pos += n
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }

// space skips spaces and comments. A comment ends with its line.
func (l *lexer) space() {
	for l.pos < len(l.text) {
		switch rest := l.text[l.pos:]; {
		case strings.IndexByte(" \t\r\n\f", rest[0]) >= 0:
			l.pos++
		case strings.HasPrefix(rest, "//"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			l.pos += n
		default:
			return
		}
	}
}

var errString = errors.New("the string has no end, or an escape")

// quoted reads a string in single or double quotes. None that is accepted has an escape in it.
func (l *lexer) quoted(rest string) {
	n := strings.IndexAny(rest[1:], rest[:1]+"\\\r\n")
	if n < 0 || rest[1+n] != rest[0] {
		l.err = fmt.Errorf("at %d: %w", l.pos, errString)
		l.pos = len(l.text)
		return
	}
	l.token.kind, l.token.text = quoted, rest[1:1+n]
	l.pos += n + 2
}
