package cmd

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What a page names in code spans, and where it links to.
var (
	fenced   = regexp.MustCompile("(?ms)^```.*?^```$")
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	goName   = regexp.MustCompile(`^([a-z][a-z0-9]*)\.([A-Za-z_]\w*)(\.[A-Za-z_]\w*)?$`)
	ourPath  = regexp.MustCompile(`^(\.ci|cmd|docs|netio|node|perf|store|uring)/[\w./-]+$`)
	link     = regexp.MustCompile(`\]\(([^)#\s]+)`)
)

// fileEndings tell the name of a file, such as broker.conf, from that of something in a package.
var fileEndings = []string{"go", "md", "json", "conf", "checkpoint", "bak", "bad", "tmp", "txt"}

// TestPagesNameWhatIsThere holds every page to the tree: a `package.Name` or `package.Type.Member` in a
// code span must be declared, a path must exist, a link must lead somewhere. So a page cannot speak of a
// function, or a test, that is gone. Decisions are history: their names may be of their time.
func TestPagesNameWhatIsThere(t *testing.T) {
	known := declared(t)
	named := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		wrong, names := judgePage(string(text), known, filepath.Dir(page))
		named += names
		for _, w := range wrong {
			t.Errorf("%s: %s", page, w)
		}
	}
	if named < 100 {
		t.Errorf("only %d names were found in all pages: they are not looked at", named)
	}
}

// TestPagesSeeAWrongName proves that the check above can fail.
func TestPagesSeeAWrongName(t *testing.T) {
	const page = "`record.Verify` `record.Record.Lacks` `log.writer.run` `vfs.Engine.Reap` `store.TestCrash` `broker.conf`\n" +
		"`store/record` [a page](decisions/README.md) [else](https://example.org)\n" +
		"```\n`record.InAFence`\n```\n" +
		"`record.Verified` `record.Record.Missing` `store.TestNever` `gone.Func` `store/nowhere.go` [gone](gone.md#place)\n"
	got, _ := judgePage(page, declared(t), filepath.Join("..", "docs"))
	want := []string{
		"record.Verified is not declared", "record.Record.Missing is not declared", "store.TestNever is not declared",
		"gone.Func is not declared", "store/nowhere.go does not exist", "the link to gone.md leads nowhere",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

// pages returns all pages but the decisions.
func pages(t *testing.T) (list []string) {
	t.Helper()
	list = []string{filepath.Join("..", "README.md"), filepath.Join("..", "CHANGELOG.md")}
	err := filepath.WalkDir(filepath.Join("..", "docs"), func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "decisions" {
			return filepath.SkipDir
		}
		if err == nil && strings.HasSuffix(file, ".md") {
			list = append(list, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// judgePage says what is wrong with the text of a page that stands in dir, and how many names it has.
func judgePage(text string, known map[string]bool, dir string) (wrong []string, names int) {
	text = fenced.ReplaceAllString(text, "")
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		switch name := m[1]; {
		case isGoName(name, known):
			names++
			if !known[name] {
				wrong = append(wrong, name+" is not declared")
			}
		case ourPath.MatchString(name):
			names++
			if _, err := os.Stat(filepath.Join("..", name)); err != nil {
				wrong = append(wrong, name+" does not exist")
			}
		}
	}
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, m[1])); err != nil {
			wrong = append(wrong, fmt.Sprintf("the link to %s leads nowhere", m[1]))
		}
	}
	return wrong, names
}

// isGoName reports whether name is meant to be something in a package: in one of ours, or an exported
// thing in one that there may no longer be.
func isGoName(name string, known map[string]bool) bool {
	m := goName.FindStringSubmatch(name)
	return m != nil && (known[m[1]] || ast.IsExported(m[2])) && !slices.Contains(fileEndings, m[2])
}

// declared holds the names of all packages, and Package.Name and Package.Type.Member of all that is
// declared in them, tests and nested modules included. Packages of one name are one here.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != ".." && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := strings.TrimSuffix(f.Name.Name, "_test")
		known[pkg] = true
		for _, d := range f.Decls {
			declare(known, pkg, d)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return known
}

func declare(known map[string]bool, pkg string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			known[pkg+"."+d.Name.Name] = true
			return
		}
		known[pkg+"."+receiver(d.Recv.List[0].Type)+"."+d.Name.Name] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					known[pkg+"."+name.Name] = true
				}
			case *ast.TypeSpec:
				known[pkg+"."+spec.Name.Name] = true
				declareMembers(known, pkg+"."+spec.Name.Name, spec.Type)
			}
		}
	}
}

func declareMembers(known map[string]bool, owner string, typ ast.Expr) {
	var list *ast.FieldList
	switch typ := typ.(type) {
	case *ast.StructType:
		list = typ.Fields
	case *ast.InterfaceType:
		list = typ.Methods
	default:
		return
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			known[owner+"."+name.Name] = true
		}
	}
}

// receiver is the name of a method's type, without pointer and type parameters.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
