package env

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// ReasonConfig is the reason of a waiting container whose configuration cannot be
// made, as a kubelet writes it.
const ReasonConfig = "CreateContainerConfigError"

// configError says that a Pod cannot have what it asks for, as it or the objects
// it names are now. Its text names objects and keys, never values.
type configError struct {
	// Reason for the waiting state of the container.
	Reason string
	// Message for people, one line.
	Message string
}

func (e *configError) Error() string { return e.Message }

func wrong(format string, args ...any) *configError {
	return &configError{Reason: ReasonConfig, Message: fmt.Sprintf(format, args...)}
}

// at says where in a container an error was found, and keeps its kind.
func at(c corev1.Container, where string, err error) error {
	var config *configError
	if errors.As(err, &config) {
		return &configError{Reason: config.Reason, Message: fmt.Sprintf("container %s, %s: %s", c.Name, where, config.Message)}
	}
	return fmt.Errorf("container %s, %s: %w", c.Name, where, err)
}
