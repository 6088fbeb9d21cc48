package postgres

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/quorate/quorate/store/engine"
)

// The types by their numbers in the server's catalogue, which never change.
const (
	oidBool    = 16
	oidBytes   = 17
	oidInt8    = 20
	oidInt2    = 21
	oidInt4    = 23
	oidText    = 25
	oidFloat4  = 700
	oidFloat8  = 701
	oidVarchar = 1043
	oidNumeric = 1700
)

const (
	formatText   int16 = 0
	formatBinary int16 = 1
)

// typeOf returns the type that an argument is sent as; 0 lets the server choose.
func typeOf(v engine.Value) uint32 {
	switch v.Kind() {
	case engine.KindInt, engine.KindNow:
		return oidInt8
	case engine.KindFloat:
		return oidFloat8
	case engine.KindText:
		return oidText
	case engine.KindBlob:
		return oidBytes
	}
	return 0
}

// arguments encodes the arguments of one statement. It is used again for the next
// one, as soon as that one is in the connection's buffer.
type arguments struct {
	buf     []byte
	ends    []int
	values  [][]byte
	formats []int16
	types   []uint32
}

// set encodes args. It fails for a text that PostgreSQL cannot hold.
func (a *arguments) set(args []engine.Value) error {
	a.buf, a.ends, a.values, a.formats, a.types = a.buf[:0], a.ends[:0], a.values[:0], a.formats[:0], a.types[:0]
	for i, v := range args {
		format := formatBinary
		switch v.Kind() {
		case engine.KindInt:
			n, _ := v.Int()
			a.buf = binary.BigEndian.AppendUint64(a.buf, uint64(n))
		case engine.KindNow:
			n, _ := v.Offset()
			a.buf = binary.BigEndian.AppendUint64(a.buf, uint64(n))
		case engine.KindFloat:
			f, _ := v.Float()
			a.buf = binary.BigEndian.AppendUint64(a.buf, math.Float64bits(f))
		case engine.KindText:
			s, _ := v.Text()
			if err := checkText(s); err != nil {
				return fmt.Errorf("parameter %d: %w", i+1, err)
			}
			a.buf, format = append(a.buf, s...), formatText
		case engine.KindBlob:
			s, _ := v.Bytes()
			a.buf = append(a.buf, s...)
		}
		a.ends = append(a.ends, len(a.buf))
		a.formats = append(a.formats, format)
		a.types = append(a.types, typeOf(v))
	}
	from := 0
	for i, end := range a.ends {
		if args[i].IsNull() {
			a.values = append(a.values, nil)
		} else {
			a.values = append(a.values, a.buf[from:end:end])
		}
		from = end
	}
	return nil
}

// checkText says it in the same words for every server, and before the
// transaction.
func checkText(s string) error {
	switch {
	case strings.IndexByte(s, 0) >= 0:
		return fmt.Errorf("a text with a NUL character, which PostgreSQL cannot hold")
	case !utf8.ValidString(s):
		return fmt.Errorf("a text that is not valid UTF-8")
	}
	return nil
}

// resultFormats asks for those types in binary that the text may lose something
// of, or that are cheaper so.
func resultFormats(fields []pgconn.FieldDescription) []int16 {
	if len(fields) == 0 {
		return nil
	}
	out := make([]int16, len(fields))
	for i := range fields {
		switch fields[i].DataTypeOID {
		case oidBool, oidInt2, oidInt4, oidInt8, oidFloat4, oidFloat8, oidBytes:
			out[i] = formatBinary
		}
	}
	return out
}

// decode turns a column into a value: integers and booleans into integers, a
// numeric into an integer if it is one, and what has no kind of its own into text.
func decode(f *pgconn.FieldDescription, raw []byte) (engine.Value, error) {
	if raw == nil {
		return engine.Null(), nil
	}
	if f.Format == formatBinary {
		return decodeBinary(f.DataTypeOID, raw)
	}
	s := string(raw)
	switch f.DataTypeOID {
	case oidBool:
		if s == "t" {
			return engine.Int(1), nil
		}
		return engine.Int(0), nil
	case oidInt2, oidInt4, oidInt8:
		n, err := strconv.ParseInt(s, 10, 64)
		return engine.Int(n), err
	case oidFloat4, oidFloat8:
		x, err := strconv.ParseFloat(s, 64)
		return engine.Float(x), err
	case oidNumeric:
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return engine.Int(n), nil
		}
		x, err := strconv.ParseFloat(s, 64)
		return engine.Float(x), err
	case oidBytes:
		if len(s) < 2 || s[:2] != `\x` {
			return engine.Value{}, fmt.Errorf("bytes that are not in hexadecimal")
		}
		b, err := hex.DecodeString(s[2:])
		return engine.Blob(string(b)), err
	}
	return engine.Text(s), nil
}

func decodeBinary(oid uint32, raw []byte) (engine.Value, error) {
	switch {
	case oid == oidBool && len(raw) == 1:
		return engine.Int(int64(raw[0])), nil
	case oid == oidInt2 && len(raw) == 2:
		return engine.Int(int64(int16(binary.BigEndian.Uint16(raw)))), nil
	case oid == oidInt4 && len(raw) == 4:
		return engine.Int(int64(int32(binary.BigEndian.Uint32(raw)))), nil
	case oid == oidInt8 && len(raw) == 8:
		return engine.Int(int64(binary.BigEndian.Uint64(raw))), nil
	case oid == oidFloat4 && len(raw) == 4:
		return engine.Float(float64(math.Float32frombits(binary.BigEndian.Uint32(raw)))), nil
	case oid == oidFloat8 && len(raw) == 8:
		return engine.Float(math.Float64frombits(binary.BigEndian.Uint64(raw))), nil
	case oid == oidBytes:
		return engine.Blob(string(raw)), nil
	}
	return engine.Value{}, fmt.Errorf("%d bytes for a value of type %d", len(raw), oid)
}
