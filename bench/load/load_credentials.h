// Credentials of the load's nodes and users. With TLS each node has a certificate of its own name,
// made as `paceline pki issue` makes it but kept in memory: if a thousand nodes read their files
// each second, as workers do, one machine would do work that no machine of a cluster has.
#ifndef BENCH_LOAD_LOAD_CREDENTIALS_H_
#define BENCH_LOAD_LOAD_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace paceline {

struct LoadCredentials {
  std::vector<std::shared_ptr<grpc::ChannelCredentials>> nodes;  // In the order of their names.
  std::shared_ptr<grpc::ChannelCredentials> users;               // An operator.
  std::shared_ptr<grpc::ChannelCredentials> watchers;            // A viewer.
};

// `pki`: the folder that `paceline pki init` has made, with the authority's key; empty: plain text.
// `nodes`: their names. Returns errors of CertificateAuthority.
absl::StatusOr<LoadCredentials> MakeLoadCredentials(const std::string& pki,
                                                    const std::vector<std::string>& nodes);

}  // namespace paceline

#endif  // BENCH_LOAD_LOAD_CREDENTIALS_H_
