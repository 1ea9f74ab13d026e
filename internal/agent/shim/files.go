package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	// recordPatience is how long a record that cannot be written, as the disk is full,
	// is tried again.
	recordPatience = time.Minute
	recordPause    = time.Second
)

// record writes what must not be lost, and tries again for a while. tried is called
// after the first time.
func record(path string, value any, tried func()) error {
	begin := time.Now()
	err := WriteJSON(path, value)
	tried()
	for err != nil && time.Since(begin) < recordPatience {
		time.Sleep(recordPause)
		err = WriteJSON(path, value)
	}
	return err
}

// WriteJSON replaces a file by one rename, and returns once both the file and its
// new name are on the disk. Only the owner may read it.
func WriteJSON(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", filepath.Base(path), err)
	}
	if err := writeSynced(path+".new", data); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("replacing %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

func writeSynced(path string, data []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("writing %s to the disk: %w", path, err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("opening %s: %w", dir, err)
	}
	if err := d.Sync(); err != nil {
		return errors.Join(fmt.Errorf("writing %s to the disk: %w", dir, err), d.Close())
	}
	return d.Close()
}
