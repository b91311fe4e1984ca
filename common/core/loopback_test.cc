#include "common/core/loopback.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(LoopbackTest, ThisMachineOnly) {
  for (const char* address : {"127.0.0.1:7450", "127.1.2.3:0", "localhost:1", "[::1]:7450", "::1",
                              "[::1]", "localhost", "127.0.0.1", "127.0.0.1:1,localhost:2"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
}

TEST(LoopbackTest, AllElseMayBeReachedFromElsewhere) {
  for (const char* address :
       {"0.0.0.0:7450", "[::]:7450", ":7450", "", "head:7450", "10.0.0.1:1", "127.evil.com:1",
        "127.0.0.1.evil.com:1", "128.0.0.1:1", "127.0.0.256:1", "localhost.evil.com:1", "127.0.0:1",
        "127.0.0.+1:1", "127.0.0.1:1,head:2", "127.0.0.1:1,"}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

TEST(LoopbackTest, EveryInterfaceIsNoHost) {
  for (const char* address : {"0.0.0.0:7450", "[::]:7450", ":::7450"}) {
    EXPECT_TRUE(IsEveryInterface(address)) << address;
  }
  for (const char* address : {"10.0.0.0:1", "head:1", "[::1]:1", "127.0.0.1:1"}) {
    EXPECT_FALSE(IsEveryInterface(address)) << address;
  }
}

}  // namespace
}  // namespace paceline
