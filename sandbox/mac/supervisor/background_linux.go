package supervisor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/macfleet/macfleet/sandbox/mac/launchd"
)

const (
	daemonFolder = "/Library/LaunchDaemons"
	// backgroundItems is where background task management keeps its database.
	// Whoever moves it aside makes it forget.
	backgroundItems = "/private/var/db/com.apple.backgroundtaskmanagement/BackgroundItems-v16.btm"
)

// SaveRegistrations implements launchd.System: the file on the disk has the
// size, the state document what is in it.
func (m *machine) SaveRegistrations(r launchd.Registrations) {
	p := (*pid1)(m)
	err := p.state.setRegistrations(r)
	if err == nil {
		err = growDatabase(r.Bytes())
	}
	if err != nil {
		p.log("background items: " + err.Error())
	}
}

func growDatabase(size int64) error {
	if err := os.MkdirAll(filepath.Dir(backgroundItems), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(backgroundItems, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// registrations are those on record, unless their database was moved aside.
func (p *pid1) registrations() launchd.Registrations {
	if _, err := os.Stat(backgroundItems); errors.Is(err, fs.ErrNotExist) {
		return launchd.Registrations{}
	}
	return p.state.registrations()
}

// watchDaemons tells launchd of every property list that appears in the folder
// it watches, for however short a time.
func (p *pid1) watchDaemons() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watching the daemons: %w", err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, daemonFolder, unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO); err != nil {
		_ = events.Close()
		return fmt.Errorf("watching the daemons: %w", err)
	}
	go func() {
		buffer := make([]byte, 16<<10)
		for {
			n, err := events.Read(buffer)
			if err != nil {
				p.log("background items: " + err.Error())
				return
			}
			for _, name := range eventNames(buffer[:n]) {
				p.appeared(filepath.Join(daemonFolder, name))
			}
		}
	}()
	return nil
}

// eventNames takes the names from inotify(7) events: a header of 16 bytes
// whose last word is the length of the padded name that follows.
func eventNames(data []byte) []string {
	var names []string
	for len(data) >= unix.SizeofInotifyEvent {
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(data[unix.SizeofInotifyEvent-4:]))
		if end > len(data) {
			break
		}
		names = append(names, strings.TrimRight(string(data[unix.SizeofInotifyEvent:end]), "\x00"))
		data = data[end:]
	}
	return names
}

func (p *pid1) appeared(path string) {
	if !strings.HasSuffix(path, ".plist") {
		return
	}
	data, err := os.ReadFile(path)
	if err != nil {
		data = nil
	}
	p.launchd.Appeared(path, data)
}
