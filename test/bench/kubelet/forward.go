package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
)

// listening is the part of a script that has one program send bytes to who connects to a port, and another take them.
// nc ends its side when its input ends, so that the second has an input that never does, and says on it that it is there.
func (b *bench) listening(netcat string, down, up int) string {
	fifo := fmt.Sprintf("/tmp/never-%d", up)
	return fmt.Sprintf("(while :; do head -c %d /dev/zero | %s -l %d >/dev/null; done) &\n", b.bytes(), netcat, down) +
		fmt.Sprintf("mkfifo %[1]s; exec 3<>%[1]s; rm %[1]s\n", fifo) +
		fmt.Sprintf("(while :; do echo here >&3; %s -l %d <&3 >/dev/null; done) &\n", netcat, up)
}

// here is what that program says first.
const here = "here\n"

func (b *bench) bytes() int64 { return int64(b.megabytes) * 1e6 }

// tries of a transfer, of which the median counts.
const tries = 3

// transfers sends bytes through forwarded ports, from the Pod and to it.
func (b *bench) transfers(ctx context.Context, pods pair[*corev1.Pod], down, up int) error {
	for _, t := range []struct {
		of   func(net.Conn) (time.Duration, error)
		port int
		out  *pair[[]float64]
	}{{b.receive, down, &b.out.Down}, {b.send, up, &b.out.Up}} {
		for range tries {
			for _, s := range []struct {
				pod   *corev1.Pod
				rates *[]float64
			}{{pods.Kubelet, &t.out.Kubelet}, {pods.Mac, &t.out.Mac}} {
				took, err := b.transfer(ctx, s.pod, t.port, t.of)
				if err != nil {
					return err
				}
				*s.rates = append(*s.rates, float64(b.megabytes)/took.Seconds())
			}
		}
	}
	return nil
}

// errNotYet: nobody listened in the Pod.
var errNotYet = errors.New("nothing came through the port")

// transfer is what one takes, once somebody listens.
func (b *bench) transfer(ctx context.Context, p *corev1.Pod, port int, do func(net.Conn) (time.Duration, error)) (took time.Duration, err error) {
	waited := b.await(ctx, p.Name+" listens", func() bool {
		took, err = b.through(ctx, p, port, do)
		return !errors.Is(err, errNotYet)
	})
	if waited != nil {
		return 0, waited
	}
	return took, err
}

// through does something with one connection to a port of a Pod, as kubectl forwards it.
func (b *bench) through(ctx context.Context, p *corev1.Pod, port int, do func(net.Conn) (time.Duration, error)) (time.Duration, error) {
	target := b.plane.Client.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.Namespace).Name(p.Name).SubResource("portforward").URL()
	dialer, err := portforward.NewSPDYOverWebsocketDialerForStreaming(target, b.plane.Config())
	if err != nil {
		return 0, fmt.Errorf("preparing to forward a port: %w", err)
	}
	stop, ready, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	f, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{fmt.Sprint(":", port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return 0, fmt.Errorf("preparing to forward a port: %w", err)
	}
	go func() { done <- f.ForwardPorts() }()
	defer func() {
		close(stop)
		<-done //nolint:errcheck // it was stopped
	}()
	select {
	case <-ready:
	case err := <-done:
		done <- nil
		return 0, fmt.Errorf("forwarding a port of %s: %w", p.Name, err)
	}
	ports, err := f.GetPorts()
	if err != nil {
		return 0, fmt.Errorf("forwarding a port of %s: %w", p.Name, err)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprint("127.0.0.1:", ports[0].Local))
	if err != nil {
		return 0, fmt.Errorf("connecting to a forwarded port: %w", err)
	}
	defer conn.Close() //nolint:errcheck // all has come
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	return do(conn)
}

// receive takes all that comes.
func (b *bench) receive(conn net.Conn) (time.Duration, error) {
	began := time.Now()
	switch n, err := io.Copy(io.Discard, conn); {
	case n == 0:
		return 0, errNotYet
	case err != nil:
		return 0, fmt.Errorf("receiving through a port: %w", err)
	case n != b.bytes():
		return 0, fmt.Errorf("%d of %d bytes came through a port", n, b.bytes())
	}
	return time.Since(began), nil
}

// send sends, and waits until the other side has taken it and closes.
func (b *bench) send(conn net.Conn) (time.Duration, error) {
	if _, err := io.ReadFull(conn, make([]byte, len(here))); err != nil {
		return 0, errNotYet
	}
	began := time.Now()
	if _, err := io.CopyN(conn, zeros{}, b.bytes()); err != nil {
		return 0, fmt.Errorf("sending through a port: %w", err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return 0, fmt.Errorf("ending what is sent through a port: %w", err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		return 0, fmt.Errorf("waiting for what was sent through a port: %w", err)
	}
	return time.Since(began), nil
}

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// say tells what goes wrong, apart from the figures.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
