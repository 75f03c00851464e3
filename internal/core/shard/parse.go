package shard

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ErrSelector is wrapped by Parse's errors.
var ErrSelector = errors.New("invalid shard selector")

// Parse parses a selector: one or more calls of shardRange, joined by ||. A call has three
// arguments: a field, the first hash of a range, and the hash after the last hash of the range.
// Both hashes are strings of 0x and 16 hexadecimal digits. The second may also be 2^64, which has
// 17 digits.
//
// Servers parse selectors as CEL. Parse accepts CEL's parentheses, comments, and strings in single
// or double quotes. It does not accept escapes in strings, raw strings, or shardRange called as a
// method, although CEL allows all three. Servers accept every selector that Parse accepts, with the
// same meaning.
func Parse(text string) (*Selector, error) {
	p := parser{lexer: lexer{text: strings.TrimSpace(text)}}
	s, err := p.selector()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSelector, err)
	}
	return s, nil
}

const (
	maxText   = 100_000 // in bytes; servers limit a selector to the same number of characters
	maxDepth  = 64      // of parentheses
	maxRanges = 1024
)

// parser reads one selector by recursive descent.
type parser struct {
	lexer
	depth  int
	field  Field
	ranges []Range
}

func (p *parser) selector() (*Selector, error) {
	switch {
	case p.text == "":
		return nil, errors.New("empty")
	case len(p.text) > maxText:
		return nil, fmt.Errorf("longer than %d bytes", maxText)
	}
	p.next()
	if err := p.either(); err != nil {
		return nil, err
	}
	if p.err != nil || p.token.kind != end {
		return nil, p.unexpected("|| or the end")
	}
	return newSelector(p.field, p.ranges), nil
}

// either parses terms joined by ||.
func (p *parser) either() error {
	for {
		if err := p.term(); err != nil {
			return err
		}
		if p.token.kind != or {
			return nil
		}
		p.next()
	}
}

// term parses one call of shardRange, or terms in parentheses.
func (p *parser) term() error {
	if p.token.is('(') {
		return p.enclosed(p.either)
	}
	return p.call()
}

// enclosed parses an opening parenthesis, calls the function inside, and parses the closing
// parenthesis.
func (p *parser) enclosed(inside func() error) error {
	if p.depth++; p.depth > maxDepth {
		return fmt.Errorf("more than %d parentheses", maxDepth)
	}
	p.next()
	if err := inside(); err != nil {
		return err
	}
	p.depth--
	return p.expect(')')
}

func (p *parser) expect(c byte) error {
	if !p.token.is(c) {
		return p.unexpected(strconv.QuoteRune(rune(c)))
	}
	p.next()
	return nil
}

func (p *parser) unexpected(wanted string) error {
	if p.err != nil {
		return p.err
	}
	return fmt.Errorf("at %d: %s expected", p.token.at, wanted)
}

// call parses shardRange(field, 'first', 'end').
func (p *parser) call() error {
	if p.token.kind != word || p.token.text != "shardRange" {
		return p.unexpected("shardRange(field, 'first', 'end')")
	}
	p.next()
	if err := p.expect('('); err != nil {
		return err
	}
	path, err := p.path()
	if err != nil {
		return err
	}
	var f Field
	switch path {
	case UID.path():
	case Namespace.path():
		f = Namespace
	default:
		return unknown(path)
	}
	var bounds [2]string
	for i := range bounds {
		if err := p.expect(','); err != nil {
			return err
		}
		if bounds[i], err = p.quoted(); err != nil {
			return err
		}
	}
	if err := p.expect(')'); err != nil {
		return err
	}
	return p.add(f, bounds[0], bounds[1])
}

func unknown(path string) error {
	return fmt.Errorf("field %.80q is neither %s nor %s", path, UID.path(), Namespace.path())
}

// path parses names joined by dots. The whole path, or its first names, may be in parentheses.
func (p *parser) path() (path string, err error) {
	switch {
	case p.token.is('('):
		err = p.enclosed(func() error {
			path, err = p.path()
			return err
		})
		if err != nil {
			return "", err
		}
	case p.token.kind == word:
		path = p.token.text
		p.next()
	default:
		return "", p.unexpected("a field")
	}
	for p.token.is('.') {
		if p.next(); p.token.kind != word {
			return "", p.unexpected("a field's name")
		}
		// A path that is longer than the longest field is unknown. Without this limit, path could join
		// thousands of names.
		if path += "." + p.token.text; len(path) > len(Namespace.path()) {
			return "", unknown(path)
		}
		p.next()
	}
	return path, nil
}

// quoted parses a string, which may be in parentheses, and returns the text between its quotes.
func (p *parser) quoted() (text string, err error) {
	if p.token.is('(') {
		err = p.enclosed(func() error {
			text, err = p.quoted()
			return err
		})
		return text, err
	}
	if p.token.kind != quoted {
		return "", p.unexpected("a string")
	}
	text = p.token.text
	p.next()
	return text, nil
}

// add appends the range of one call to p.ranges, after checking it.
func (p *parser) add(f Field, first, end string) error {
	if len(p.ranges) > 0 && p.field != f {
		return errors.New("all ranges must be of the same field")
	}
	if len(p.ranges) == maxRanges {
		return fmt.Errorf("more than %d ranges", maxRanges)
	}
	r := Range{Last: math.MaxUint64}
	var err error
	if r.First, err = hexOf(first); err != nil {
		return err
	}
	if end != pastAll {
		if r.Last, err = hexOf(end); err != nil {
			return err
		}
		if r.Last <= r.First {
			return fmt.Errorf("range from %s ends before it starts, at %s", first, end)
		}
		r.Last--
	}
	p.field, p.ranges = f, append(p.ranges, r)
	return nil
}

// hexOf parses a hash: 0x and 16 hexadecimal digits in lower case.
func hexOf(text string) (uint64, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok || len(digits) != 16 || strings.Trim(digits, "0123456789abcdef") != "" {
		return 0, fmt.Errorf("%.80q is not 0x and 16 hexadecimal digits in lower case", text)
	}
	return strconv.ParseUint(digits, 16, 64)
}

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
	text string // a word's text, a string's text without the quotes, or a sign's byte
	at   int
}

func (t token) is(c byte) bool { return t.kind == sign && t.text[0] == c }

// lexer splits a text into the CEL tokens that a selector may contain. An error is stored in err,
// and moves the lexer to the end of the text.
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

// space skips spaces and comments. A comment ends at the end of its line.
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

// quoted reads a string in single or double quotes. If the string has no end or contains an escape,
// quoted sets l.err and reads no token.
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
