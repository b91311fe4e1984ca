// Who calls: found once for each call, before its handler runs, and kept with it.
//
// gRPC shares the AuthContext among all calls of a connection, so nothing about a caller is put
// there: a token of one call must not speak for the next one. The caller is an entry of the call's
// own metadata instead, which an interceptor writes when the call begins. What a client sends under
// that name is removed first, and so is its token.
#ifndef CONTROLLER_API_ADMISSION_CALLER_H_
#define CONTROLLER_API_ADMISSION_CALLER_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>

#include <functional>
#include <memory>

#include "common/identity/principal.h"

namespace paceline {

// Name of the metadata that a bearer token comes in.
inline constexpr char kAuthorizationMetadata[] = "authorization";

// The caller; nobody without the interceptors. From any thread, while the call is open.
Principal CallerOf(const grpc::ServerContextBase& context);

// Who calls, by what the call shows. Thread-safe.
using CallerFinder = std::function<Principal(const grpc::ServerContextBase&)>;

// Of a controller that is served without TLS on loopback: an admin, of the name that the caller
// says (common/user_metadata.h), which nothing proves; it may be any text, or empty.
Principal CallerByWord(const grpc::ServerContextBase& context);

// For grpc::ServerBuilder.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeCallerInterceptors(
    CallerFinder find);

}  // namespace paceline

#endif  // CONTROLLER_API_ADMISSION_CALLER_H_
