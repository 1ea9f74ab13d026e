package document

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"

	"k8s.io/utils/ptr"
)

// authority is a certificate as PEM.
func authority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestKubeletIsValidated(t *testing.T) {
	for name, c := range map[string]struct {
		kubelet Kubelet
		port    int
		field   string
	}{
		"nothing said": {port: 10250},
		"off":          {kubelet: Kubelet{Port: ptr.To(0)}},
		"another port": {kubelet: Kubelet{Port: ptr.To(10350)}, port: 10350},
		"authority":    {kubelet: Kubelet{ClientCA: authority(t)}, port: 10250},
		"no port":      {kubelet: Kubelet{Port: ptr.To(65536)}, port: 65536, field: "kubelet.port"},
		"below zero":   {kubelet: Kubelet{Port: ptr.To(-1)}, port: -1, field: "kubelet.port"},
		"no authority": {kubelet: Kubelet{ClientCA: []byte("x")}, port: 10250, field: "kubelet.clientCA"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.kubelet.ListenPort(); got != c.port {
				t.Errorf("port %d, want %d", got, c.port)
			}
			field := ""
			var refused *FieldError
			if errors.As(c.kubelet.validate(), &refused) {
				field = refused.Field
			}
			if field != c.field {
				t.Errorf("refuses %q, want %q", field, c.field)
			}
		})
	}
}

// A build refuses what it does not know. One from before the kubelet API must be able to
// read what says nothing of it, and one of now what a build from before wrote.
func TestKubeletThatSaysNothingIsNotWritten(t *testing.T) {
	d := desired()
	d.Kubelet = Kubelet{}
	data, err := EncodeConfig(d)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte("kubelet")) {
		t.Errorf("%s", data)
	}
	c, err := DecodeConfig(data)
	if err != nil || c.Kubelet.ListenPort() != DefaultKubeletPort {
		t.Errorf("read as %+v (%v)", c.Kubelet, err)
	}
	d.Kubelet = Kubelet{Port: ptr.To(0), ClientCA: authority(t)}
	if data, err = EncodeConfig(d); err != nil {
		t.Fatal(err)
	}
	if c, err = DecodeConfig(data); err != nil || c.Kubelet.ListenPort() != 0 || !bytes.Equal(c.Kubelet.ClientCA, d.Kubelet.ClientCA) {
		t.Errorf("read as %+v (%v)", c.Kubelet, err)
	}
}
