package scaleway

import (
	"net/http"
	"time"
)

// reply is an answer before it is written: no body means an empty one. Error
// bodies are maps because the gateway sorts the keys of its error bodies.
type reply struct {
	status int
	body   any
	raw    *raw // instead of body
	drop   bool // close the connection instead
	late   bool // with drop: after the client's patience
}

func ok(body any) reply { return reply{status: http.StatusOK, body: body} }

func refuse(status int, body map[string]any) reply { return reply{status: status, body: body} }

func noContent() reply { return reply{status: http.StatusNoContent} }

// deniedAuthentication is recorded for an unknown key; a missing key gets the same (INF).
func deniedAuthentication() reply {
	return refuse(http.StatusUnauthorized, map[string]any{
		"type": "denied_authentication", "message": "authentication is denied",
		"method": "api_key", "reason": "not_found",
	})
}

// permissionsDenied is recorded for GET of a deleted server. The other actions on
// a missing server, and an identifier that never existed, are INF.
func permissionsDenied(action string) reply {
	return refuse(http.StatusForbidden, map[string]any{
		"type": "permissions_denied", "message": "insufficient permissions",
		"details": []any{map[string]any{"action": action, "resource": "server"}},
	})
}

// cannotDeleteBefore is recorded with a monthly commitment.
func cannotDeleteBefore(t time.Time) reply {
	return preconditionFailed("this server cannot be deleted before " + t.UTC().String())
}

func preconditionFailed(help string) reply {
	return refuse(http.StatusPreconditionFailed, map[string]any{
		"type": "precondition_failed", "message": "precondition is not respected",
		"precondition": "unknown_precondition", "help_message": help,
	})
}

func outOfStock() reply {
	return refuse(http.StatusServiceUnavailable, map[string]any{
		"type": "out_of_stock", "message": "resource is out of stock", "resource": "server",
	})
}

func notFound(resource, id string) reply {
	return refuse(http.StatusNotFound, map[string]any{
		"type": "not_found", "message": "resource is not found", "resource": resource, "resource_id": id,
	})
}

// transientState is recorded for another resource; for a server INF.
func transientState(id string, status Status) reply {
	return refuse(http.StatusConflict, map[string]any{
		"type": "transient_state", "message": "resource is in a transient state",
		"resource": "server", "resource_id": id, "current_state": string(status),
	})
}

// locked has the SDK's shape; its status is INF.
func locked(id string) reply {
	return refuse(http.StatusLocked, map[string]any{
		"type": "locked", "message": "resource is locked", "resource": "server", "resource_id": id,
	})
}

// quotasExceeded has the SDK's shape; the resource's name for a Mac is INF.
func quotasExceeded(limit int) reply {
	return refuse(http.StatusForbidden, map[string]any{
		"type": "quotas_exceeded", "message": "quota(s) exceeded for this resource",
		"details": []any{map[string]any{"resource": "apple_silicon_server", "quota": limit, "current": limit}},
	})
}

// invalidArgument is recorded for other APIs of the same gateway.
func invalidArgument(name, reason, help string) reply {
	return refuse(http.StatusBadRequest, map[string]any{
		"type": "invalid_arguments", "message": "invalid argument(s)",
		"details": []any{map[string]any{"argument_name": name, "reason": reason, "help_message": help}},
	})
}

func notUUID(argument string) reply {
	return invalidArgument(argument, "format", "value must be a valid UUID")
}

func internalError() reply {
	return refuse(http.StatusInternalServerError, map[string]any{"message": "internal error"})
}

// unavailable is a product that is out of order (INF).
func unavailable() reply {
	return refuse(http.StatusServiceUnavailable, map[string]any{"message": "service unavailable"})
}

// notServed is ours, not the vendor's: it names the gap instead of imitating an answer.
func notServed(what string) reply {
	return refuse(http.StatusNotImplemented, map[string]any{
		"type": "not_served", "message": "the simulated vendor does not serve this: " + what,
	})
}
