package guild_test

import (
	"go/ast"
	"go/types"
	"testing"
)

// A reader must see at once which values a condition depends on, and to which field a value goes.
func TestPlainStatements(t *testing.T) {
	files, all := sources(t)
	for _, s := range all {
		info := resolve(files, s)
		for _, f := range s.files {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SwitchStmt:
					if n.Init != nil && n.Tag == nil {
						t.Errorf("%s: switch with a statement and no value: put the statement on a line of its own", files.Position(n.Pos()))
					}
				case *ast.IfStmt:
					if n.Init != nil && !shareName(assigned(n.Init), n.Cond) {
						t.Errorf("%s: the condition does not use what the statement before it assigns: make them two lines", files.Position(n.Pos()))
					}
				case *ast.CompositeLit:
					if n.Type != nil && len(n.Elts) >= 4 && isPositional(n) && isStruct(info.TypeOf(n)) {
						t.Errorf("%s: %d values without the names of their fields", files.Position(n.Pos()), len(n.Elts))
					}
				}
				return true
			})
		}
	}
}

// assigned returns the expressions that a statement assigns to.
func assigned(s ast.Stmt) []ast.Expr {
	if a, ok := s.(*ast.AssignStmt); ok {
		return a.Lhs
	}
	return nil
}

// shareName reports whether the condition uses an identifier of the targets.
func shareName(targets []ast.Expr, condition ast.Expr) bool {
	names := map[string]bool{}
	for _, target := range targets {
		ast.Inspect(target, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				names[id.Name] = true
			}
			return true
		})
	}
	found := false
	ast.Inspect(condition, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && names[id.Name]
		return true
	})
	return found
}

// isPositional reports whether the values of a literal have no names.
func isPositional(c *ast.CompositeLit) bool {
	_, named := c.Elts[0].(*ast.KeyValueExpr)
	return !named
}

// isStruct reports whether t is a struct of this package. go vet checks those of other packages.
func isStruct(t types.Type) bool {
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(*types.Struct)
	return ok
}
