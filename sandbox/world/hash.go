package world

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// hashAgent is the SHA-256 of the agent in a folder, by which Macs know it. The manager's
// image has it compressed, and Macs get it as it was before.
func hashAgent(dir string) (string, error) {
	hash, err := hashFile(filepath.Join(dir, "tart-kubelet"))
	if errors.Is(err, fs.ErrNotExist) {
		hash, err = hashPacked(filepath.Join(dir, "tart-kubelet.gz"))
	}
	if err != nil {
		return "", fmt.Errorf("hashing the agent: %w", err)
	}
	return hash, nil
}

// hashFile is a file's SHA-256.
func hashFile(path string) (string, error) {
	file, err := os.Open(filepath.Clean(path))
	if err != nil {
		return "", err
	}
	hash, err := hashAll(file)
	return hash, errors.Join(err, file.Close())
}

// hashPacked is the SHA-256 of what is compressed in a file.
func hashPacked(path string) (string, error) {
	file, err := os.Open(filepath.Clean(path))
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // only read
	content, err := gzip.NewReader(file)
	if err != nil {
		return "", fmt.Errorf("unpacking %s: %w", path, err)
	}
	return hashAll(content)
}

func hashAll(content io.Reader) (string, error) {
	hash := sha256.New()
	_, err := io.Copy(hash, content)
	return hex.EncodeToString(hash.Sum(nil)), err
}
