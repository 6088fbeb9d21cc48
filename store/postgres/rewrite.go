package postgres

import (
	"strconv"
	"strings"

	"github.com/quorate/quorate/store/engine"
)

// text is a statement's text, taken apart at its parameters.
type text struct {
	parts  []string // what stands between the parameters, one more than there are
	params []int    // the argument of each parameter, from 0
	count  int      // arguments
	plain  bool     // a statement that the server can prepare before those in front of it have run
	reads  bool     // a SELECT that neither locks rows nor makes a table
	bounds bool     // begins or ends a transaction
}

// parse finds the parameters of a statement: ? and ?1 outside of literals, quoted
// names and comments. Types in table definitions become PostgreSQL's: see
// [Engine.Define].
func parse(sql string) *text {
	sql = translate(sql)
	t := &text{}
	from := 0
	for l := (lexer{sql: sql}); l.next(); {
		if l.kind != tokenParam {
			continue
		}
		n := t.count
		if digits := sql[l.start+1 : l.end]; digits != "" {
			v, err := strconv.Atoi(digits)
			if err != nil || v < 1 || v > maxParams {
				continue // the server says what is wrong with it
			}
			n = v - 1
		}
		t.parts = append(t.parts, sql[from:l.start])
		t.params = append(t.params, n)
		t.count = max(t.count, n+1)
		from = l.end
	}
	t.parts = append(t.parts, sql[from:])
	switch firstWord(sql) {
	case "SELECT":
		t.plain, t.reads = true, !hasWord(sql, "INTO", "FOR")
	case "INSERT", "UPDATE", "DELETE", "WITH", "VALUES":
		t.plain = true
	case "BEGIN", "COMMIT":
		t.plain, t.bounds = true, true
	case "START", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "PREPARE":
		t.bounds = true
	}
	return t
}

// sqlNow is the present in microseconds by the server's clock: when the
// transaction began, the same for all its statements.
const sqlNow = `((extract(epoch from transaction_timestamp())*1000000)::bigint+`

// render returns the text with PostgreSQL's parameters, for arguments of these
// kinds.
func (t *text) render(args []engine.Value) string {
	var b strings.Builder
	n := 0
	for _, p := range t.parts {
		n += len(p) + 4
	}
	b.Grow(n)
	for i, p := range t.params {
		b.WriteString(t.parts[i])
		now := p < len(args) && args[p].Kind() == engine.KindNow
		if now {
			b.WriteString(sqlNow)
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(p + 1))
		if now {
			b.WriteByte(')')
		}
	}
	b.WriteString(t.parts[len(t.parts)-1])
	return b.String()
}

func firstWord(sql string) string {
	for l := (lexer{sql: sql}); l.next(); {
		if l.kind == tokenWord {
			return strings.ToUpper(sql[l.start:l.end])
		}
		if sql[l.start] != '(' {
			return ""
		}
	}
	return ""
}

// hasWord reports whether one of the words is in sql, outside of literals.
func hasWord(sql string, words ...string) bool {
	for l := (lexer{sql: sql}); l.next(); {
		if l.kind != tokenWord {
			continue
		}
		for _, w := range words {
			if strings.EqualFold(sql[l.start:l.end], w) {
				return true
			}
		}
	}
	return false
}

type tokenKind uint8

const (
	tokenOther  tokenKind = iota // a single byte of anything else
	tokenWord                    // a name, keyword or number
	tokenQuoted                  // a "name"
	tokenText                    // a literal
	tokenParam                   // ? or ?1
)

// lexer cuts SQL into tokens, without white space and comments. It takes what
// SQLite and PostgreSQL have in common, and PostgreSQL's E” and $$ literals.
// What is not closed reaches to the end.
type lexer struct {
	sql        string
	start, end int // the token
	kind       tokenKind
}

func (l *lexer) next() bool {
	s := l.sql
	i := l.end
	for i < len(s) {
		switch c := s[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v':
			i++
			continue
		case c == '-' && strings.HasPrefix(s[i:], "--"):
			i = after(s, i+2, "\n")
			continue
		case c == '/' && strings.HasPrefix(s[i:], "/*"):
			i = afterComment(s, i+2)
			continue
		case c == '\'':
			l.set(tokenText, i, afterQuoted(s, i+1, '\'', false))
		case c == '"':
			l.set(tokenQuoted, i, afterQuoted(s, i+1, '"', false))
		case c == '?':
			end := i + 1
			for end < len(s) && s[end] >= '0' && s[end] <= '9' {
				end++
			}
			l.set(tokenParam, i, end)
		case isWord(c):
			end := i + 1
			for end < len(s) && (isWord(s[end]) || s[end] == '$') {
				end++
			}
			if end == i+1 && (c == 'e' || c == 'E') && end < len(s) && s[end] == '\'' {
				l.set(tokenText, i, afterQuoted(s, end+1, '\'', true))
			} else {
				l.set(tokenWord, i, end)
			}
		case c == '$':
			if tag := dollarTag(s[i:]); tag != "" {
				l.set(tokenText, i, after(s, i+len(tag), tag))
			} else {
				l.set(tokenOther, i, i+1)
			}
		default:
			l.set(tokenOther, i, i+1)
		}
		return true
	}
	l.start, l.end = len(s), len(s)
	return false
}

func (l *lexer) set(kind tokenKind, start, end int) { l.kind, l.start, l.end = kind, start, end }

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

// after returns the position behind the next mark, or the end.
func after(s string, i int, mark string) int {
	if at := strings.Index(s[i:], mark); at >= 0 {
		return i + at + len(mark)
	}
	return len(s)
}

// afterComment returns the position behind a comment's end. PostgreSQL's nest.
func afterComment(s string, i int) int {
	for depth := 1; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], "*/"):
			i++
			if depth--; depth == 0 {
				return i + 1
			}
		case strings.HasPrefix(s[i:], "/*"):
			i++
			depth++
		}
	}
	return len(s)
}

// afterQuoted returns the position behind the closing quote; a doubled one, and
// where there are escapes one behind a backslash, stands for itself.
func afterQuoted(s string, i int, quote byte, escapes bool) int {
	for ; i < len(s); i++ {
		switch {
		case escapes && s[i] == '\\':
			i++
		case s[i] == quote:
			if i+1 == len(s) || s[i+1] != quote {
				return i + 1
			}
			i++
		}
	}
	return len(s)
}

// dollarTag returns the $tag$ that s begins with, or nothing.
func dollarTag(s string) string {
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '$':
			return s[:i+1]
		case !isWord(c), i == 1 && c >= '0' && c <= '9':
			return ""
		}
	}
	return ""
}
