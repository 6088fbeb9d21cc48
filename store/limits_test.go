package store

import (
	"errors"
	"strings"
	"testing"
	"unicode"
)

func TestBlobLiteralShapes(t *testing.T) {
	blanks := []string{""}
	for r := rune(0); r <= 0xffff; r++ {
		if unicode.IsSpace(r) {
			blanks = append(blanks, string(r))
		}
	}
	if len(blanks) < 20 {
		t.Fatalf("%d kinds of blanks", len(blanks))
	}
	for _, literal := range []string{"x''", "x'4142'", "X'4142'", "x'AbCd'", "x'zz'", "x'4'", "x'41''42'", "x'\n'"} {
		for _, before := range blanks {
			for _, after := range []string{"", before} {
				if !isBlobLiteral(before + literal + after) {
					t.Errorf("%q is a blob literal", before+literal+after)
				}
			}
		}
	}
	for _, name := range []string{"", "x", "x'", "'x'", "xx''", "x'41'.", "y'41'", `x"41"`, "x '41'", "0x41", "x'41", "41'", "ax'41'", "\u200bx'41'", "x\u00a0'41'", "-x'41'"} {
		if isBlobLiteral(name) {
			t.Errorf("%q is no blob literal", name)
		}
	}
}

func TestLimitsTakeTheirDefaults(t *testing.T) {
	l, err := Limits{MaxRows: 7}.withDefaults()
	if err != nil || l != (Limits{MaxName: 1024, MaxState: 16 << 20, MaxCommit: 32 << 20, MaxRows: 7}) {
		t.Errorf("%+v, %v", l, err)
	}
	for _, l := range []Limits{{MaxName: -1}, {MaxState: -1}, {MaxCommit: -1}, {MaxRows: -1}} {
		if _, err := l.withDefaults(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

// An error never contains the value that it is about, which may be secret.
func TestInvalidInputIsNotRepeated(t *testing.T) {
	s := fakeStore(&fakeEngine{traits: fakeTraits})
	for _, secret := range []string{"secret\x00", "secret\xff", "x'secret'", strings.Repeat("secret", 1000)} {
		_, err := s.PrepareLoad(secret)
		if !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
}
