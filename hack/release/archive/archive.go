// Package archive writes gzipped tar archives whose bytes depend on nothing but
// their content: no owners, no times of the machine, entries in order.
package archive

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Entry is one file or link of an archive.
type Entry struct {
	// Name is its path in the archive.
	Name string
	// Source is the file to take, unless Content or Link is what there is.
	Source  string
	Content []byte
	Link    string
	// Executable files are for everybody to run; others to read.
	Executable bool
}

// Tree lists the files below a folder as entries below a name. Links stand for what
// they lead to.
func Tree(folder, name string) ([]Entry, error) {
	var entries []Entry
	err := filepath.WalkDir(folder, func(file string, found fs.DirEntry, err error) error {
		if err != nil || found.IsDir() {
			return err
		}
		below, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		inside := path.Join(name, filepath.ToSlash(below))
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if info.IsDir() { // behind a link, which WalkDir does not follow
			linked, err := Tree(file+string(filepath.Separator), inside)
			entries = append(entries, linked...)
			return err
		}
		entries = append(entries, Entry{Name: inside, Source: file, Executable: info.Mode()&0o100 != 0})
		return nil
	})
	return entries, err
}

// WriteGzip makes the file of a gzipped archive.
func WriteGzip(file string, made time.Time, entries []Entry) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("creating an archive: %w", err)
	}
	zipped, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err == nil {
		err = Write(zipped, made, entries)
	}
	for _, each := range []io.Closer{zipped, out} {
		if closed := each.Close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

// Write writes a tar archive, with the folders that its entries need before them.
func Write(out io.Writer, made time.Time, entries []Entry) error {
	sorted := slices.SortedFunc(slices.Values(entries), func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	writer := &writer{Writer: tar.NewWriter(out), made: made, folders: map[string]bool{".": true, "/": true}}
	for _, entry := range sorted {
		if err := writer.add(entry); err != nil {
			return fmt.Errorf("adding %s: %w", entry.Name, err)
		}
	}
	return writer.Close()
}

type writer struct {
	*tar.Writer
	made    time.Time
	folders map[string]bool
}

func (w *writer) header(name string, kind byte, mode, size int64, link string) error {
	return w.WriteHeader(&tar.Header{Name: name, Typeflag: kind, Mode: mode, Size: size, Linkname: link, ModTime: w.made, Format: tar.FormatPAX})
}

func (w *writer) folder(name string) error {
	if w.folders[name] {
		return nil
	}
	w.folders[name] = true
	if err := w.folder(path.Dir(name)); err != nil {
		return err
	}
	return w.header(name+"/", tar.TypeDir, 0o755, 0, "")
}

func (w *writer) add(entry Entry) error {
	if err := w.folder(path.Dir(entry.Name)); err != nil {
		return err
	}
	mode := int64(0o644)
	if entry.Executable {
		mode = 0o755
	}
	switch {
	case entry.Link != "":
		return w.header(entry.Name, tar.TypeSymlink, 0o777, 0, entry.Link)
	case entry.Source != "":
		return w.copy(entry, mode)
	}
	if err := w.header(entry.Name, tar.TypeReg, mode, int64(len(entry.Content)), ""); err != nil {
		return err
	}
	_, err := w.Writer.Write(entry.Content)
	return err
}

func (w *writer) copy(entry Entry, mode int64) error {
	file, err := os.Open(entry.Source)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := w.header(entry.Name, tar.TypeReg, mode, info.Size(), ""); err != nil {
		return err
	}
	_, err = io.Copy(w.Writer, file)
	return err
}
