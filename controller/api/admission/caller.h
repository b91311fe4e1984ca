// Finds the caller of each call once, before its handler runs, and keeps it with the call.
//
// gRPC shares the AuthContext among all calls of a connection, so nothing about a caller is put
// there: one call's token must not speak for the next call. Instead an interceptor writes the
// caller into the call's own metadata when the call begins, after removing what the client sent
// under that name, and the token.
#ifndef CONTROLLER_API_ADMISSION_CALLER_H_
#define CONTROLLER_API_ADMISSION_CALLER_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>

#include <functional>
#include <memory>

#include "common/identity/principal.h"

namespace paceline {

// Name of the metadata entry that carries a bearer token.
inline constexpr char kAuthorizationMetadata[] = "authorization";

// Returns the caller; nobody without the interceptors. Thread-safe while the call is open.
Principal CallerOf(const grpc::ServerContextBase& context);

// Finds the caller of a call. Thread-safe.
using CallerFinder = std::function<Principal(const grpc::ServerContextBase&)>;

// Caller of a controller served without TLS on loopback: an admin, under the name that the caller
// claims (common/user_metadata.h). Nothing proves that name; it may be any text, or empty.
Principal CallerByWord(const grpc::ServerContextBase& context);

// For grpc::ServerBuilder.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeCallerInterceptors(
    CallerFinder find);

}  // namespace paceline

#endif  // CONTROLLER_API_ADMISSION_CALLER_H_
