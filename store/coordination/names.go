package coordination

import "fmt"

// maxName is the longest name, in bytes.
const maxName = 200

// NameError says that a name cannot be used. It matches [ErrInvalidName] and
// [ErrInvalid].
type NameError struct {
	// Kind is what the name is of, such as "lock".
	Kind string
	// Name is the name.
	Name string
	// Reason says what is wrong with it.
	Reason string
}

// Error returns the kind, the name, shortened, and the reason.
func (e *NameError) Error() string {
	name := e.Name
	if len(name) > maxName {
		name = name[:maxName] + "..."
	}
	return fmt.Sprintf("invalid name of a %s: %q %s", e.Kind, name, e.Reason)
}

// Is reports whether target is ErrInvalidName or ErrInvalid.
func (e *NameError) Is(target error) bool { return target == ErrInvalidName || target == ErrInvalid }

// checkName returns a [*NameError] unless name has 1 to 200 bytes, begins with a
// letter or digit, and goes on with those and . _ : / -, all of them ASCII.
func checkName(kind, name string) error {
	switch {
	case name == "":
		return &NameError{kind, name, "is empty"}
	case len(name) > maxName:
		return &NameError{kind, name, fmt.Sprintf("is longer than %d bytes", maxName)}
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i == 0:
			return &NameError{kind, name, "does not begin with a letter or digit"}
		case c == '.', c == '_', c == ':', c == '/', c == '-':
		default:
			return &NameError{kind, name, fmt.Sprintf("has byte %q, which is none of A-Z a-z 0-9 . _ : / -", c)}
		}
	}
	return nil
}
