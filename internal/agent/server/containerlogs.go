package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/server/logs"
)

func (s *Server) containerLogs(w http.ResponseWriter, r *http.Request, asked route) {
	request, err := logRequestOf(r.URL.Query(), s.o.Clock.Now())
	switch {
	case errors.Is(err, errOptions):
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	case err != nil:
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	c, found := s.find(r.Context(), w, asked,
		fmt.Sprintf("pod %q does not exist", asked.pod), fmt.Sprintf("container %q not found in pod %q", asked.container, asked.pod))
	if !found {
		return
	}
	path, err := logOf(c, request.previous)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	s.sendLog(w, r, request, path, func() bool { return s.logEnded(r.Context(), asked, c, path) })
}

// logOf finds the log of a container's attempt.
func logOf(c Container, previous bool) (string, error) {
	if err := logError(c.Pod, c.Name, previous); err != nil {
		return "", err
	}
	path := c.Log
	if previous {
		path = c.PreviousLog
	}
	switch {
	case path != "":
		return path, nil
	case previous:
		return "", fmt.Errorf("previous terminated container %q in pod %q not found", c.Name, c.Pod.Name)
	}
	return "", fmt.Errorf("container %q in pod %q is not available", c.Name, c.Pod.Name)
}

func (s *Server) sendLog(w http.ResponseWriter, r *http.Request, request logRequest, path string, ended func() bool) {
	flush := func() { _ = http.NewResponseController(w).Flush() }
	var stdout, stderr io.Writer = w, w
	switch request.stream {
	case corev1.LogStreamStdout:
		stderr = nil
	case corev1.LogStreamStderr:
		stdout = nil
	}
	options := request.options
	options.Clock = s.o.Clock
	if request.follow {
		options.Ended, options.Flush = ended, flush
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err := logs.Read(r.Context(), path, options, stdout, stderr); err != nil && r.Context().Err() == nil {
		// In the middle of a log there is no other way left to say it.
		s.o.Log.Warn("log of a container not read to its end", "pod", path, "err", err)
		refuse(w, http.StatusInternalServerError, "failed to read the log of the container")
		return
	}
	// Before the end, and without a length, as a kubelet sends it: the API server gives a
	// WebSocket nothing of what comes together with the end.
	flush()
}

// logEnded reports whether nothing more comes into the log of the attempt that is
// followed.
func (s *Server) logEnded(ctx context.Context, asked route, was Container, path string) bool {
	// The Pod, not its name: another one may have it by now.
	c, err := s.o.Backend.Container(ctx, asked.namespace, asked.pod, string(was.Pod.UID), asked.container)
	if errors.Is(err, ErrPodNotFound) || errors.Is(err, ErrContainerNotFound) {
		return true
	}
	return err == nil && (c.Log != path || !c.Running)
}
