package shims

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// ownerCall names a file to pid 1 by inode and by its real path.
func ownerCall(path string) (wire.OwnerCall, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return wire.OwnerCall{}, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return wire.OwnerCall{}, err
	}
	abs = filepath.Join(dir, filepath.Base(abs))
	inode, err := wire.InodeOf(abs)
	return wire.OwnerCall{Inode: inode, Path: abs}, err
}

func (c *call) owner(path string) (wire.Owner, error) {
	q, err := ownerCall(path)
	if err != nil {
		return wire.Owner{}, err
	}
	a, err := c.ask(wire.Call{Owner: &q})
	if err != nil {
		return wire.Owner{}, err
	}
	return *a.Owner, nil
}

func (c *call) setOwner(path string, o wire.Owner) error {
	q, err := ownerCall(path)
	if err != nil {
		return err
	}
	q.Set = &o
	a, err := c.ask(wire.Call{Owner: &q})
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	return err
}

// mine is the ownership of files this process makes.
func (c *call) mine() wire.Owner {
	if c.uid == wire.RootUID {
		return wire.Owner{UID: wire.RootUID, GID: wire.WheelGID}
	}
	return wire.Owner{UID: c.uid, GID: wire.StaffGID}
}

// mayChange reports whether the folder that holds path lets this process add
// or remove names. A sticky folder lets it remove its own only.
func (c *call) mayChange(path string) error {
	if c.uid == wire.RootUID {
		return nil
	}
	dir := filepath.Dir(filepath.Clean(path))
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	o, err := c.owner(dir)
	if err != nil {
		return err
	}
	if o.UID == c.uid {
		return nil
	}
	if info.Mode().Perm()&0o002 == 0 {
		return fs.ErrPermission
	}
	return c.mayChangeFile(path, info.Mode()&fs.ModeSticky != 0)
}

// mayChangeFile reports whether this process owns path, when that matters.
func (c *call) mayChangeFile(path string, matters bool) error {
	if c.uid == wire.RootUID || !matters {
		return nil
	}
	o, err := c.owner(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && o.UID != c.uid {
		err = fs.ErrPermission
	}
	return err
}

func (c *call) userName(uid int) string {
	switch uid {
	case wire.RootUID:
		return "root"
	case wire.UserUID:
		return c.world.Username
	}
	return strconv.Itoa(uid)
}

func groupName(gid int) string {
	switch gid {
	case wire.WheelGID:
		return "wheel"
	case wire.StaffGID:
		return "staff"
	case adminGID:
		return "admin"
	}
	return strconv.Itoa(gid)
}

const adminGID = 80

func (c *call) parseOwner(s string, o wire.Owner) (wire.Owner, bool) {
	user, group, both := strings.Cut(s, ":")
	switch user {
	case "":
	case "root":
		o.UID = wire.RootUID
	case c.world.Username:
		o.UID = wire.UserUID
	default:
		n, err := strconv.Atoi(user)
		if err != nil {
			return o, false
		}
		o.UID = n
	}
	if !both {
		return o, true
	}
	switch group {
	case "wheel":
		o.GID = wire.WheelGID
	case "staff":
		o.GID = wire.StaffGID
	case "admin":
		o.GID = adminGID
	default:
		n, err := strconv.Atoi(group)
		if err != nil {
			return o, false
		}
		o.GID = n
	}
	return o, true
}
