package probe

import (
	"context"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/internal/agent/pod/action"
)

// checkGRPC asks for the health of a service by gRPC's health protocol, without TLS. The
// connection of guest is opened.
func checkGRPC(ctx context.Context, a *corev1.GRPCAction, guest action.Runner, limit time.Duration) result {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// Nothing is looked up: the guest's own loopback is what the dialer reaches.
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(a.Port)))
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUserAgent(action.UserAgent("probe")),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithNoProxy(),
		grpc.WithMaxHeaderListSize(action.MaxHeaders), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(action.MaxHeaders)),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return action.Dial(ctx, guest, "", int(a.Port)) }),
	)
	if err != nil {
		return failure("error: failed to connect service at %q: %v", address, err)
	}
	defer conn.Close()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: ptr.Deref(a.Service, "")})
	code := status.Code(err)
	if code == codes.Unavailable && ctx.Err() != nil {
		code = codes.DeadlineExceeded // the dial ends with ctx, too, and may be the first to say so
	}
	switch code {
	case codes.OK:
	case codes.Unimplemented:
		return failure("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): %s", status.Convert(err).Message())
	case codes.DeadlineExceeded:
		return failure("timeout: health rpc did not complete within %v", limit)
	case codes.Unavailable:
		return failure("error: failed to connect service at %q: %s", address, status.Convert(err).Message())
	default:
		return failure("error: health rpc probe failed: %v", err)
	}
	if s := answer.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		return failure("service unhealthy (responded with %q)", s)
	}
	return result{healthy: true, message: "service healthy"}
}
