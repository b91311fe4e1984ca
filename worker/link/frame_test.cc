#include "worker/link/frame.h"

#include <gtest/gtest.h>

#include <vector>

#include "worker/link/interface_host.h"

namespace paceline {
namespace {

// Every payload that `decoder` can deliver now.
std::vector<std::string> Drain(FrameDecoder& decoder) {
  std::vector<std::string> payloads;
  while (true) {
    const auto next = decoder.Next();
    EXPECT_TRUE(next.ok()) << next.status();
    if (!next.ok() || !next->has_value()) return payloads;
    payloads.push_back(**next);
  }
}

TEST(FrameTest, LengthIsLittleEndian) {
  EXPECT_EQ(EncodeFrame(std::string(0x0102, 'x')).substr(0, 5), std::string("\x02\x01\0\0x", 5));
}

TEST(FrameTest, DecodesWhatWasEncodedHoweverItIsCut) {
  const std::vector<std::string> payloads = {"", "a", std::string(70000, '\xff'), "end"};
  std::string stream;
  for (const std::string& payload : payloads) stream += EncodeFrame(payload);
  for (const size_t piece : {size_t{1}, size_t{3}, size_t{4096}, stream.size()}) {
    FrameDecoder decoder;
    std::vector<std::string> decoded;
    for (size_t at = 0; at < stream.size(); at += piece) {
      decoder.Append(absl::string_view(stream).substr(at, piece));
      for (std::string& payload : Drain(decoder)) decoded.push_back(std::move(payload));
    }
    EXPECT_EQ(decoded, payloads) << "pieces of " << piece;
  }
}

TEST(FrameTest, LargestFramePasses) {
  FrameDecoder decoder;
  decoder.Append(EncodeFrame(std::string(kMaxFrameBytes, 'x')));
  EXPECT_EQ(Drain(decoder).size(), 1);
}

TEST(FrameTest, LengthBeyondTheLimitIsAnErrorForGood) {
  FrameDecoder decoder;
  decoder.Append(absl::string_view("\x01\0\x10\0", 4));
  EXPECT_EQ(decoder.Next().status().code(), absl::StatusCode::kInvalidArgument);
  decoder.Append("more");
  EXPECT_EQ(decoder.Next().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(InterfaceHostTest, DevicesHaveAddressesAndAddressesAreTheirOwn) {
  EXPECT_EQ(InterfaceHost("lo"), "127.0.0.1");
  for (const char* address : {"127.0.0.1", "::1", "10.1.2.3", "node-1.example.org", ""}) {
    EXPECT_EQ(InterfaceHost(address), address);
  }
}

TEST(InterfaceHostTest, TheDeviceOfAnAddressIsFoundAndOfANameThatHasNoneNot) {
  EXPECT_EQ(InterfaceDevice("lo"), "lo");
  EXPECT_EQ(InterfaceDevice("127.0.0.1"), "lo");
  // Addresses and devices that no machine has (RFC 5737).
  for (const char* interface : {"", "203.0.113.1", "no-such-device"}) {
    EXPECT_EQ(InterfaceDevice(interface), "") << interface;
  }
}

}  // namespace
}  // namespace paceline
