package shim

import (
	"context"
	"slices"
)

// maxLeft is how many commands without a terminal go on whose callers have gone. Each holds
// a process of the guest and a connection to its agent.
const maxLeft = 100

// leftCommand is one whose caller has gone. The field makes each another.
type leftCommand struct{ end context.CancelFunc }

// orphan lets a command of a stream go on that nobody reads any more, and ends the one that
// was left first where they are too many. The function it returns forgets the command.
func (c *commands) orphan(end context.CancelFunc) (forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mine := &leftCommand{end}
	if c.left = append(c.left, mine); len(c.left) > maxLeft {
		c.left[0].end()
		c.left = slices.Delete(c.left, 0, 1)
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.left = slices.DeleteFunc(c.left, func(l *leftCommand) bool { return l == mine })
	}
}
