package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
)

// unreadable says which kubeconfig there is none of, or why it cannot be used.
func (f *Flags) unreadable(err error) error {
	switch {
	case f.kubeconfig != "" && errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no kubeconfig %s: name another with --kubeconfig", f.kubeconfig)
	case clientcmd.IsEmptyConfig(err) && f.kubeconfig != "":
		return fmt.Errorf("the kubeconfig %s names no cluster: name another with --kubeconfig", f.kubeconfig)
	case clientcmd.IsEmptyConfig(err):
		return fmt.Errorf("there is no kubeconfig: name one with --kubeconfig, or in the variable KUBECONFIG (default: %s). To try macfleet without a cluster: macfleet sandbox up", clientcmd.RecommendedHomeFile)
	}
	return fmt.Errorf("reading the kubeconfig: %w", err)
}

// Fatal is why nothing at all can be had of the cluster, in one line; nil: err is about
// what was asked, and not about the cluster.
func Fatal(err error) error {
	var unreachable *url.Error
	var timeout net.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster does not take these credentials, which have expired or were revoked: log in again, or choose another --context: %w", err)
	case errors.As(err, &unreachable):
		return fmt.Errorf("the API server %s cannot be reached: %w", serverOf(unreachable.URL), unreachable.Err)
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the API server does not answer in time: %w", err)
	case apierrors.IsServiceUnavailable(err), apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err), apierrors.IsTimeout(err):
		return fmt.Errorf("the API server cannot answer now: %w", err)
	}
	return nil
}

// serverOf is an address without what was asked of it.
func serverOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return address
	}
	return parsed.Scheme + "://" + parsed.Host
}
