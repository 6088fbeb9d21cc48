package rqlitetest

import "strings"

// The server finds RETURNING in two steps: the lower-cased text must contain
// "returning " with a blank, and its own SQL parser must accept the statement and
// see the clause. Where either fails the write runs and its rows are lost. Here
// the parser is stood in for by a scan of the tokens that knows the forms the
// real one rejects.

// returnsRows reports whether a write would be answered with rows.
func returnsRows(sql string) bool {
	if !containsFold(sql, "returning ") {
		return false
	}
	var (
		found     bool
		conflicts int
		prev      [3]string // the last keywords, nearest first
		depth     int
	)
	s := scanner{in: sql}
	for {
		tok := s.next()
		switch tok.kind {
		case tokenEnd:
			return found
		case tokenBad:
			return false
		case tokenPunct:
			switch tok.text {
			case "(":
				depth++
			case ")":
				depth--
			case ";":
				return found // only the first statement is parsed
			case "[":
				return false
			}
		case tokenWord:
			word := strings.ToUpper(tok.text)
			switch {
			case word == "RETURNING" && depth == 0:
				found = true
			case word == "CONFLICT" && prev[0] == "ON":
				if conflicts++; conflicts > 1 {
					return false
				}
			case word == "DISTINCT" && prev[0] == "NOT" && prev[1] == "IS":
				return false
			case word == "VALUES" && prev[0] == "(" && prev[1] == "IN" && prev[2] == ")":
				return false // row value IN (VALUES …)
			}
		case tokenNumber:
			if strings.Contains(tok.text, "_") {
				return false
			}
		}
		if insertWith(prev, tok) {
			return false
		}
		last := tok.text
		if tok.kind == tokenWord {
			last = strings.ToUpper(last)
		}
		prev[2], prev[1], prev[0] = prev[1], prev[0], last
	}
}

// insertWith spots INSERT INTO t WITH …, which the parser does not take.
func insertWith(prev [3]string, tok token) bool {
	return tok.kind == tokenWord && strings.EqualFold(tok.text, "WITH") && prev[1] == "INTO" && prev[0] != "("
}

// dataStatement reports whether the text starts like a statement that touches
// rows only, and so cannot change the schema.
func dataStatement(sql string) bool {
	s := scanner{in: sql}
	switch strings.ToUpper(s.next().text) {
	case "INSERT", "UPDATE", "DELETE", "REPLACE", "SELECT", "WITH", "VALUES", "BEGIN", "COMMIT", "END", "SAVEPOINT", "RELEASE":
		return true
	}
	return false
}

// containsFold reports whether s contains the lower-case text sub in any case.
func containsFold(s, sub string) bool {
	for i := 0; i+len(sub) <= len(s); i++ {
		if c := s[i] | 0x20; c == sub[0] && strings.EqualFold(s[i:i+len(sub)], sub) {
			return true
		}
	}
	return false
}

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenBad           // an unterminated string or comment
	tokenWord
	tokenNumber
	tokenString // 'text', "name" or `name`
	tokenPunct
)

type token struct {
	kind tokenKind
	text string
}

// scanner splits SQL into tokens, skipping white space and comments.
type scanner struct {
	in string
	at int
}

func (s *scanner) next() token {
	for s.at < len(s.in) {
		rest := s.in[s.at:]
		switch c := rest[0]; {
		case c == ' ' || c >= '\t' && c <= '\r':
			s.at++
		case strings.HasPrefix(rest, "--"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest) - 1
			}
			s.at += n + 1
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				return token{kind: tokenBad}
			}
			s.at += n + 4
		case c == '\'' || c == '"' || c == '`':
			return s.quoted(c)
		case wordByte(c) && (c < '0' || c > '9'):
			return s.run(tokenWord)
		case c >= '0' && c <= '9':
			return s.run(tokenNumber)
		default:
			s.at++
			return token{kind: tokenPunct, text: rest[:1]}
		}
	}
	return token{kind: tokenEnd}
}

func wordByte(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
}

func (s *scanner) run(kind tokenKind) token {
	start := s.at
	for s.at < len(s.in) && wordByte(s.in[s.at]) {
		s.at++
	}
	return token{kind: kind, text: s.in[start:s.at]}
}

// quoted reads up to the closing quote; a doubled quote stands for itself.
func (s *scanner) quoted(q byte) token {
	start := s.at
	for s.at++; s.at < len(s.in); s.at++ {
		if s.in[s.at] != q {
			continue
		}
		if s.at+1 < len(s.in) && s.in[s.at+1] == q {
			s.at++
			continue
		}
		s.at++
		return token{kind: tokenString, text: s.in[start:s.at]}
	}
	return token{kind: tokenBad}
}
