package supervisor

import (
	"io"
	"os"

	"github.com/macfleet/macfleet/sandbox/mac/process"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// maxScriptOutput bounds what a script's output may carry to the host side.
const maxScriptOutput = 1 << 20

// runScript runs an ordered script as root and sends its outcome.
func (p *pid1) runScript(o wire.Order) {
	outcome := wire.Event{Kind: wire.EventDone, Seq: o.Seq}
	output, rc, err := p.script(o.Script)
	outcome.Output, outcome.RC = output, rc
	if err != nil {
		outcome.Text, outcome.RC = err.Error(), cannotExecuteRC
	}
	p.host.send(outcome)
}

func (p *pid1) script(text string) (output string, rc int, err error) {
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return "", 0, err
	}
	defer nothing.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return "", 0, err
	}
	defer read.Close()
	child, err := p.table.Start(process.Spec{
		Path: "/bin/sh", Argv: []string{"sh", "-c", text}, Dir: "/var/root", UID: wire.RootUID,
		Env:   []string{"PATH=" + wire.DefaultPath, "HOME=/var/root", "USER=root", "LOGNAME=root"},
		Files: [3]*os.File{nothing, write, write},
	})
	_ = write.Close()
	if err != nil {
		return "", 0, err
	}
	data, err := io.ReadAll(io.LimitReader(read, maxScriptOutput))
	status := child.Wait()
	if status.Signaled() {
		return string(data), 128 + int(status.Signal()), err
	}
	return string(data), status.ExitStatus(), err
}
