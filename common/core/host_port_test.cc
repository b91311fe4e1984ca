#include "common/core/host_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::HasSubstr;

TEST(HostPortTest, HostsAndAddressesHavePorts) {
  for (const auto& [text, host, port] : {std::tuple{"head:7450", "head", 7450},
                                         {"127.0.0.1:0", "127.0.0.1", 0},
                                         {"[::1]:7450", "::1", 7450},
                                         {"[fe80::1%eth0]:65535", "fe80::1%eth0", 65535},
                                         {":7450", "", 7450}}) {
    const absl::StatusOr<HostPort> parsed = ParseHostPort(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->host, host);
    EXPECT_EQ(parsed->port, port);
    EXPECT_EQ(JoinHostPort(parsed->host, parsed->port), text);
  }
  EXPECT_EQ(JoinHostPort("[::1]", 1), "[::1]:1");
}

TEST(HostPortTest, WhatIsNoAddressIsRefusedWithTheRightSpelling) {
  for (const char* text : {"", "head", "head:", "head:x", "head:65536", "head:-1", "head:+1",
                           "head:1 ", "::1", "::1:7450", ":::7450", "[::1]", "[::1", "[::1:7450",
                           "::1]:7450", "[head]:1", "[]:1", "[[::1]]:1", "a:b:1"}) {
    const absl::StatusOr<HostPort> parsed = ParseHostPort(text);
    EXPECT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("[::1]:7450")) << text;
  }
}

TEST(HostPortTest, PortsAreAddedWhereTheyAreMissing) {
  for (const auto& [given, whole] : {std::pair{"head", "head:7450"},
                                     {"head:1", "head:1"},
                                     {"127.0.0.1", "127.0.0.1:7450"},
                                     {"::1", "[::1]:7450"},
                                     {"[::1]", "[::1]:7450"},
                                     {"[::1]:1", "[::1]:1"},
                                     {"fd00::2", "[fd00::2]:7450"}}) {
    EXPECT_EQ(WithPort(given, 7450), whole);
  }
}

}  // namespace
}  // namespace paceline
