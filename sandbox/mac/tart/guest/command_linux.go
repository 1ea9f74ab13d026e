package guest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/creack/pty"
	"google.golang.org/grpc"

	"github.com/macfleet/macfleet/sandbox/mac/tart/guestwire"
)

// endOfInput is what a terminal takes for the end of its input.
const endOfInput = 4

// command is what an agent of some generation understood of a request.
type command struct {
	name             string
	args             []string
	interactive, tty bool
	detach           bool
	// session: it leads one of its own, as newer agents and terminals give it; the others
	// are in the agent's group.
	session bool
	size    pty.Winsize
	env     []string
	dir     string
	user    string
}

func (a *agent) read(m *guestwire.Message) command {
	c := command{
		name: m.Text("name"), args: m.Texts("args"), interactive: m.Yes("interactive"), tty: m.Yes("tty"),
		size: size(m.Sub("terminal_size")), env: os.Environ(), dir: home,
	}
	c.session = c.tty || a.hasSignals()
	if !a.hasEnv() {
		return c
	}
	c.detach = m.Yes("detach")
	c.session = c.session || c.detach
	if dir := m.Text("workdir"); dir != "" {
		c.dir = dir
	}
	if a.hasSignals() {
		c.user = m.Text("user")
	}
	if c.user == "root" {
		c.env = lay(c.env, map[string]string{"HOME": "/var/root", "USER": "root", "LOGNAME": "root"})
	}
	c.env = lay(c.env, m.Map("env"))
	return c
}

// lay puts variables over an environment, sorted.
func lay(env []string, over map[string]string) []string {
	all := map[string]string{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		all[name] = value
	}
	maps.Copy(all, over)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, name+"="+all[name])
	}
	return out
}

func size(m *guestwire.Message) pty.Winsize {
	return pty.Winsize{Rows: uint16(m.Number("rows")), Cols: uint16(m.Number("cols"))}
}

// running is a started command with our ends of its streams.
type running struct {
	process        *process
	stdin          *os.File // nil without input
	stdout, stderr *os.File // nil when detached; stderr also with a terminal
	terminal       *os.File // what stdin and stdout then are

	once sync.Once
}

// start looks the command up where the agent would, and starts it.
func (c command) start(t *table) (*running, error) {
	switch c.user {
	case "", "admin", "root":
	default:
		return nil, fmt.Errorf("user: unknown user %s", c.user)
	}
	path := c.name
	if !strings.Contains(path, "/") { // others are found from the command's directory
		found, err := exec.LookPath(path)
		if err != nil {
			return nil, err
		}
		path = found
	}
	if st, err := os.Stat(c.dir); err != nil || !st.IsDir() {
		return nil, fmt.Errorf("chdir %s: no such directory", c.dir)
	}
	r, theirs, err := c.streams()
	if err != nil {
		return nil, err
	}
	defer closeAll(theirs)
	attr := &syscall.ProcAttr{Dir: c.dir, Env: c.env, Sys: &syscall.SysProcAttr{Setsid: c.session, Setctty: r.terminal != nil}}
	for _, f := range theirs {
		attr.Files = append(attr.Files, f.Fd())
	}
	r.process, err = t.start(path, append([]string{c.name}, c.args...), attr)
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // some are there more than once
	}
}

// streams are made as asked for: ours in running, theirs for the command.
func (c command) streams() (r *running, theirs []*os.File, err error) {
	r = &running{}
	if c.tty && !c.detach {
		ours, tty, err := pty.Open()
		if err != nil {
			return nil, nil, fmt.Errorf("opening a terminal: %w", err)
		}
		if c.size.Rows != 0 || c.size.Cols != 0 {
			_ = pty.Setsize(ours, &c.size) // no reason to refuse the command
		}
		r.terminal, r.stdout = ours, ours
		if c.interactive {
			r.stdin = ours
		}
		return r, []*os.File{tty, tty, tty}, nil
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs = []*os.File{null, null, null}
	if c.detach {
		return r, theirs, nil
	}
	if c.interactive {
		if theirs[0], r.stdin, err = os.Pipe(); err != nil {
			return nil, nil, err
		}
	}
	if r.stdout, theirs[1], err = os.Pipe(); err != nil {
		return nil, nil, err
	}
	if r.stderr, theirs[2], err = os.Pipe(); err != nil {
		return nil, nil, err
	}
	return r, theirs, nil
}

func (r *running) close() {
	for _, f := range []*os.File{r.stdin, r.stdout, r.stderr} {
		if f != nil {
			_ = f.Close() // a terminal is there more than once
		}
	}
}

// copyOutput sends frames until nobody holds the streams any more, or nobody takes them.
func (r *running) copyOutput(to *answers) {
	var both sync.WaitGroup
	if r.stderr != nil {
		both.Go(func() { _, _ = io.Copy(to.to("standard_error"), r.stderr) })
	}
	_, _ = io.Copy(to.to("standard_output"), r.stdout) // a terminal ends with EIO
	if r.terminal != nil {
		// Linux says EIO once the other side is closed, though what was written last may be on
		// its way yet. Who reads after that gets it.
		_, _ = io.Copy(to.to("standard_output"), r.stdout)
	}
	both.Wait()
}

// feed passes input and sizes on until the client has no more, and returns why input
// could not be passed on. Agents before Signal leave the input open when the client
// closes its side of the stream.
func (a *agent) feed(stream grpc.ServerStream, r *running) error {
	for {
		m := a.schema.New("ExecRequest")
		err := stream.RecvMsg(m.Message)
		if errors.Is(err, io.EOF) && a.hasSignals() {
			r.endInput()
		}
		if err != nil {
			return nil
		}
		switch {
		case m.Has("standard_input"):
			if err := r.input(m.Sub("standard_input").Bytes("data")); err != nil {
				return err
			}
		case m.Has("terminal_resize") && r.terminal != nil:
			s := size(m.Sub("terminal_resize"))
			_ = pty.Setsize(r.terminal, &s) // a terminal that has gone away needs none
		}
	}
}

// input is written to the command; no data is the end of it.
func (r *running) input(data []byte) error {
	if len(data) == 0 {
		r.endInput()
		return nil
	}
	if r.stdin == nil {
		return nil
	}
	_, err := r.stdin.Write(data)
	return err
}

func (r *running) endInput() {
	r.once.Do(func() {
		switch {
		case r.stdin == nil:
		case r.terminal != nil:
			_, _ = r.stdin.Write([]byte{endOfInput})
		default:
			_ = r.stdin.Close()
		}
	})
}
