// The OpenSSL context for our TLS servers besides gRPC's; made anew when the files change.
//
// Thread-safe.
#ifndef COMMON_TLS_SERVER_CONTEXT_H_
#define COMMON_TLS_SERVER_CONTEXT_H_

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/tls/tls_files.h"

namespace paceline {

class ServerContext {
 public:
  explicit ServerContext(TlsFiles files) : files_(std::move(files)) {}

  // The newest valid context: at least TLS 1.2; asks clients for certificates, and fails the
  // handshake for one that is not valid now or not signed by the authority. Checks the files once a
  // second. Fails only if no context could ever be made.
  absl::StatusOr<std::shared_ptr<SSL_CTX>> Get() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::StatusOr<std::shared_ptr<SSL_CTX>> Make() const;

  const TlsFiles files_;
  absl::Mutex mutex_;
  std::shared_ptr<SSL_CTX> newest_ ABSL_GUARDED_BY(mutex_);
  std::string stamp_ ABSL_GUARDED_BY(mutex_);  // Of the files it was made from.
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// The client's certificate in PEM; empty: it has shown none.
std::string ClientCertificate(SSL* ssl);

}  // namespace paceline

#endif  // COMMON_TLS_SERVER_CONTEXT_H_
