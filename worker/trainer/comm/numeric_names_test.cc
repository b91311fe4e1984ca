// A program that links our getnameinfo uses it.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <string>

namespace paceline {
namespace {

TEST(NumericNamesTest, AnAddressIsNotLookedUp) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(80);
  ASSERT_EQ(::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr), 1);
  std::array<char, NI_MAXHOST> host;
  std::array<char, NI_MAXSERV> service;
  ASSERT_EQ(::getnameinfo(reinterpret_cast<const sockaddr*>(&address), sizeof address, host.data(),
                          host.size(), service.data(), service.size(), 0),
            0);
  EXPECT_STREQ(host.data(), "127.0.0.1") << "the hosts file calls it localhost";
  EXPECT_STREQ(service.data(), "80");
}

}  // namespace
}  // namespace paceline
