package shim

import (
	"io"
	"sync"
)

// input of a command, which those who are attached feed in turn. It reads like a pipe:
// who feeds it waits for the command.
type input struct {
	feeding sync.Mutex
	reader  *io.PipeReader
	writer  *io.PipeWriter
}

func newInput() *input {
	r, w := io.Pipe()
	return &input{reader: r, writer: w}
}

func (i *input) Read(p []byte) (int, error) { return i.reader.Read(p) }

// Write feeds it, one at a time.
func (i *input) Write(p []byte) (int, error) {
	i.feeding.Lock()
	defer i.feeding.Unlock()
	return i.writer.Write(p)
}

// end says that no more will come, and waits for nobody.
func (i *input) end() { _ = i.writer.Close() }
