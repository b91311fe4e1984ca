// What a server of ours other than gRPC's needs to speak TLS: OpenSSL's context, made anew when the
// files change.
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

  // The newest that could be made: TLS 1.2 at least; clients' certificates are asked for, and one
  // that the authority has not signed or that does not hold ends the handshake. The files are
  // looked at once a second. An error only when none could ever be made.
  absl::StatusOr<std::shared_ptr<SSL_CTX>> Get() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::StatusOr<std::shared_ptr<SSL_CTX>> Make() const;

  const TlsFiles files_;
  absl::Mutex mutex_;
  std::shared_ptr<SSL_CTX> newest_ ABSL_GUARDED_BY(mutex_);
  std::string stamp_ ABSL_GUARDED_BY(mutex_);  // Of the files that it was made of.
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// The certificate of the client at the other end, PEM; empty: it has shown none.
std::string ClientCertificate(SSL* ssl);

}  // namespace paceline

#endif  // COMMON_TLS_SERVER_CONTEXT_H_
