#include "common/tls/credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

namespace paceline {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;

constexpr unsigned int kLookSeconds = 1;

}  // namespace

std::shared_ptr<grpc::ServerCredentials> ServerCredentials(const TlsFiles& files,
                                                           bool require_client_certificate) {
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(files.key, files.certificate, files.ca,
                                                       kLookSeconds));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(require_client_certificate
                                    ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                    : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> ChannelCredentials(const TlsFiles& files) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<FileWatcherCertificateProvider>(
      files.key, files.certificate, files.ca, kLookSeconds));
  options.watch_root_certs();
  if (!files.certificate.empty()) options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace paceline
