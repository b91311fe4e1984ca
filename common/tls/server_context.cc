#include "common/tls/server_context.h"

#include <openssl/err.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/tls/openssl.h"

namespace paceline {
namespace {

constexpr absl::Duration kLook = absl::Seconds(1);

// A string that changes when a file does.
std::string StampOf(const TlsFiles& files) {
  std::string stamp;
  for (const std::string& path : {files.ca, files.certificate, files.key}) {
    struct stat info = {};
    if (stat(path.c_str(), &info) != 0) continue;
    absl::StrAppend(&stamp, info.st_ino, ".", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec, ".",
                    info.st_size, " ");
  }
  return stamp;
}

}  // namespace

absl::StatusOr<std::shared_ptr<SSL_CTX>> ServerContext::Make() const {
  SslContextPtr context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) return OpenSslError("TLS cannot be set up");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  const bool loaded =
      SSL_CTX_use_certificate_chain_file(context.get(), files_.certificate.c_str()) == 1 &&
      SSL_CTX_use_PrivateKey_file(context.get(), files_.key.c_str(), SSL_FILETYPE_PEM) == 1 &&
      SSL_CTX_load_verify_locations(context.get(), files_.ca.c_str(), nullptr) == 1;
  if (!loaded) {
    return OpenSslError(absl::StrCat("the TLS files ", files_.certificate, ", ", files_.key,
                                     " and ", files_.ca, " cannot be used"));
  }
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  // A resumed session would keep a certificate that has expired.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_num_tickets(context.get(), 0);
  return std::shared_ptr<SSL_CTX>(context.release(), SSL_CTX_free);
}

absl::StatusOr<std::shared_ptr<SSL_CTX>> ServerContext::Get() {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = absl::Now();
  if (newest_ != nullptr && now >= looked_ && now < looked_ + kLook) return newest_;
  looked_ = now;
  const std::string stamp = StampOf(files_);
  if (newest_ != nullptr && stamp == stamp_) return newest_;
  absl::StatusOr<std::shared_ptr<SSL_CTX>> made = Make();
  if (made.ok()) {
    newest_ = *made;
    stamp_ = stamp;
  }
  if (newest_ != nullptr) return newest_;
  return made;
}

std::string ClientCertificate(SSL* ssl) {
  const X509Ptr certificate(SSL_get1_peer_certificate(ssl));
  return certificate == nullptr ? "" : PemOf(certificate.get());
}

}  // namespace paceline
