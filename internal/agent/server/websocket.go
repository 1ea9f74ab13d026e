package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// statusTimeout bounds the last message to a client that does not read.
const statusTimeout = 10 * time.Second

// v4Base64 is version 4 for clients that have text only.
const v4Base64 = "v4." + wsstream.Base64ChannelWebSocketProtocol

// serveWebSocket runs a command on the channels of a WebSocket. From version 5 on a client can
// close its input.
func (s *Server) serveWebSocket(w http.ResponseWriter, r *http.Request, o *remotecommand.Options, failing string, run command) {
	protocols := wsstream.NewDefaultChannelProtocols(channels(o))
	protocols[remotecommand.StreamProtocolV4Name] = wsstream.ChannelProtocolConfig{Binary: true, Channels: channels(o)}
	protocols[remotecommand.StreamProtocolV5Name] = wsstream.ChannelProtocolConfig{Binary: true, Channels: channels(o)}
	protocols[v4Base64] = wsstream.ChannelProtocolConfig{Channels: channels(o)}
	conn := wsstream.NewConn(protocols)
	conn.SetIdleTimeout(streamTimeout)
	protocol, streams, err := conn.Open(w, r)
	if err != nil {
		s.o.Log.Debug("no WebSocket", "client", r.RemoteAddr, "err", err)
		return
	}
	defer conn.Close()
	// An empty message tells the client that all is open.
	if _, err := streams[firstOutput(o)].Write(nil); err != nil {
		return
	}
	resize := resizes(streams[remotecommand.StreamResize])
	err = run(r.Context(), streamsFrom(r.Context(), s.o.Clock, o,
		streams[remotecommand.StreamStdIn], streams[remotecommand.StreamStdOut], streams[remotecommand.StreamStdErr], resize))
	conn.SetWriteDeadline(statusTimeout)
	tell(streams[remotecommand.StreamErr], protocol, failing, err)
}

// channels by their numbers, 0 to 4.
func channels(o *remotecommand.Options) []wsstream.ChannelType {
	asked := func(wanted bool, t wsstream.ChannelType) wsstream.ChannelType {
		if wanted {
			return t
		}
		return wsstream.IgnoreChannel
	}
	return []wsstream.ChannelType{
		asked(o.Stdin, wsstream.ReadChannel), asked(o.Stdout, wsstream.WriteChannel), asked(o.Stderr, wsstream.WriteChannel),
		wsstream.WriteChannel, asked(o.TTY, wsstream.ReadChannel),
	}
}

func firstOutput(o *remotecommand.Options) int {
	switch {
	case o.Stdout:
		return remotecommand.StreamStdOut
	case o.Stderr:
		return remotecommand.StreamStdErr
	}
	return remotecommand.StreamErr
}

// maxSize bounds what is read for one size of a terminal, in bytes.
const maxSize = 1 << 10

// mostSizes of a terminal wait to be taken.
const mostSizes = 16

// resizes reads the sizes of the client's terminal. The oldest that wait make place for new
// ones: nothing else of the client is read behind one that is not.
func resizes(from io.Reader) <-chan remotecommand.TerminalSize {
	to := make(chan remotecommand.TerminalSize, mostSizes)
	go func() {
		defer close(to)
		bounded := &io.LimitedReader{R: from}
		decoder := json.NewDecoder(bounded)
		for {
			bounded.N = maxSize
			var size remotecommand.TerminalSize
			if decoder.Decode(&size) != nil {
				// Whatever else comes must not hold up the other channels.
				_, _ = io.Copy(io.Discard, from)
				return
			}
			if len(to) == cap(to) {
				select {
				case <-to:
				default: // it was taken in this moment
				}
			}
			to <- size // there is room: nobody else sends
		}
	}()
	return to
}

// statusOf is how a command ended, for the client.
func statusOf(failing string, err error) metav1.Status {
	var exit exitError
	switch {
	case err == nil:
		return metav1.Status{Status: metav1.StatusSuccess}
	case errors.As(err, &exit):
		return metav1.Status{
			Status:  metav1.StatusFailure,
			Reason:  remotecommand.NonZeroExitCodeReason,
			Message: fmt.Sprintf("command terminated with non-zero exit code: %v", exit),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
				{Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(int(exit))},
			}},
		}
	}
	return metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError,
		Message: fmt.Sprintf("Internal error occurred: %s: %v", failing, err),
	}
}
