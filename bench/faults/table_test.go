package faults

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTableOfCases keeps docs/bug-cases.md true: every test that it names is
// there, and so is every promise of the conformance suite that it quotes.
func TestTableOfCases(t *testing.T) {
	root := filepath.Join("..", "..")
	table, err := os.ReadFile(filepath.Join(root, "docs", "bug-cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	sources := make(map[string]string)
	source := func(dir string) string {
		if text, ok := sources[dir]; ok {
			return text
		}
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("no package %s (%v)", dir, err)
		}
		var b strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(text)
		}
		sources[dir] = b.String()
		return b.String()
	}
	tests, promises, cases := 0, 0, 0
	for line := range strings.Lines(string(table)) {
		if !regexp.MustCompile(`^\| [A-Z]{2}-\d\d \|`).MatchString(line) {
			continue
		}
		cases++
		columns := strings.Split(strings.TrimSpace(line), " | ")
		cell := strings.TrimSuffix(columns[len(columns)-1], " |")
		found := 0
		for _, m := range regexp.MustCompile("`([a-z/]+)\\.(Test\\w+)`").FindAllStringSubmatch(cell, -1) {
			dir := m[1]
			if dir == "faults" {
				dir = "bench/faults"
			}
			if !strings.Contains(source(dir), "func "+m[2]+"(t *testing.T)") {
				t.Errorf("%s: there is no %s.%s", columns[0], m[1], m[2])
			}
			found++
		}
		tests += found
		for _, m := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(cell, -1) {
			if !strings.Contains(source("store/storetest"), `promise: "`+m[1]+`"`) {
				t.Errorf("%s: no promise %q", columns[0], m[1])
			}
			found++
			promises++
		}
		if found == 0 && cell != "none" {
			t.Errorf("%s names no test: %s", columns[0], cell)
		}
	}
	if cases < 60 || tests < 100 || promises < 30 {
		t.Errorf("the table has %d cases, %d tests and %d promises", cases, tests, promises)
	}
}
