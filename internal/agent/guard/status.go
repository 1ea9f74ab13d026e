package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// statusTimeout: hostd answers from what it knows.
const statusTimeout = 5 * time.Second

// Status asks hostd how things are, and has it do nothing. The error is an *awayError
// when it does not answer.
func (g Gate) Status(ctx context.Context) (document.HostdAnswer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, statusTimeout, fmt.Errorf("nothing came within %s", statusTimeout))
	defer cancel()
	a, err := g.ask(ctx, document.HostdStatus)
	if err == nil && a.Error != "" {
		err = errors.New("hostd refuses to say how things are: " + printable(a.Error))
	}
	return a, err
}
