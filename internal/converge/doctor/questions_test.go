package doctor

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/booktest"
)

const aboutTheQuestions = `
Some things about macOS no look answers: they take a Mac that may be broken, or an experiment. macfleet does not depend on the answers: where two were possible, it does what is right under both. If you find one, [tell us](https://github.com/macfleet/macfleet/issues/new/choose).

[The doctor](doctor.md) prints them with ` + "`--questions`" + `, and has them in its ` + "`--json`" + `. Its checks that bear on one are named here. [` + "`macfleet host accept`" + `](accept.md) tries some of them on a Mac that may be wiped; its report ends with each, and the rows that bear on it.
`

// The page in the book is what the doctor itself asks.
func TestThePageOfQuestionsIsTheDoctors(t *testing.T) {
	var rows [][]string
	for _, q := range Questions() {
		var bear []string
		for _, c := range checks() {
			if c.question == q.ID {
				bear = append(bear, booktest.Code(c.id))
			}
		}
		rows = append(rows, []string{q.ID, booktest.Words(q.Question), booktest.Words(q.Answer), strings.Join(bear, ", ")})
	}
	booktest.Hold(t, filepath.Join("..", "..", ".."), "operate/questions.md",
		booktest.Head("Open questions about macOS", "doctor.Questions")+aboutTheQuestions+
			booktest.Table([]string{"", "question", "how to find out", "checks of the doctor"}, rows))
}
