#include "worker/daemon/session/certificate_keeper.h"

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/tls/testing/test_identity.h"

namespace paceline {
namespace {

TEST(CertificateKeeperTest, RenewsAfterTwoThirdsOfTheLife) {
  EXPECT_EQ(NextRenewal(absl::Hours(24)), absl::Hours(16));
  EXPECT_EQ(NextRenewal(absl::Seconds(9)), absl::Seconds(6));
}

TEST(CertificateKeeperTest, FirstRenewalIsSoonAndSpreadOverTheNodes) {
  EXPECT_EQ(FirstRenewal(absl::Hours(24), 0.0), absl::ZeroDuration());
  EXPECT_EQ(FirstRenewal(absl::Hours(24), 1.0), absl::Minutes(1));
  EXPECT_EQ(FirstRenewal(absl::Seconds(10), 1.0), absl::Seconds(1));
}

// The last third of the life leaves time for several attempts.
TEST(CertificateKeeperTest, FailedRenewalIsTriedOftenEnough) {
  EXPECT_EQ(RenewalRetry(absl::Hours(24)), absl::Minutes(10));
  EXPECT_EQ(RenewalRetry(absl::Seconds(10)), absl::Seconds(1));
  EXPECT_LT(NextRenewal(absl::Hours(1)) + 10 * RenewalRetry(absl::Hours(1)), absl::Hours(1));
}

// For example a frozen machine: connections succeed, but nobody answers.
TEST(CertificateKeeperTest, UnreachableControllerIsLeftForAnotherOne) {
  std::string dir = ::testing::TempDir() + "/keeperXXXXXX";
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  const TlsFiles files =
      WriteIdentity(dir, TestAuthority(), {{Role::kWorker, "w1"}, {}, kWorkerLife});
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const absl::Status status = RenewCertificate(absl::StrCat("127.0.0.1:", ntohs(address.sin_port)),
                                               files, grpc::InsecureChannelCredentials());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  close(listener);
}

}  // namespace
}  // namespace paceline
