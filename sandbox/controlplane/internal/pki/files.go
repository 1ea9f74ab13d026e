package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", filepath.Base(path))
	}
	return x509.ParseECPrivateKey(block.Bytes)
}

// writePair writes the key before the certificate: a certificate that is there always has its key.
func writePair(dir, certName, keyName string, certPEM []byte, key *ecdsa.PrivateKey) error {
	keyPEM, err := encodeKey(key)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, keyName), keyPEM, 0o600); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, certName), certPEM, 0o644)
}

// writeFile replaces path as a whole, so that a reader, and the next start after a crash, never see half a file.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, data, mode); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return nil
}

// loadOrCreateServiceAccountKey keeps the key that signs service account tokens, and writes its public half beside it.
func loadOrCreateServiceAccountKey(dir string) error {
	keyPath := filepath.Join(dir, "sa.key")
	key, err := readKey(keyPath)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = createKeyFile(keyPath)
	}
	if err != nil {
		return fmt.Errorf("preparing the service account key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encoding the service account public key: %w", err)
	}
	return writeFile(filepath.Join(dir, "sa.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644)
}

func createKeyFile(path string) (*ecdsa.PrivateKey, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	data, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return key, writeFile(path, data, 0o600)
}
