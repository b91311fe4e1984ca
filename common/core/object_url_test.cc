#include "common/core/object_url.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"

namespace paceline {
namespace {

using Scheme = ObjectUrl::Scheme;

TEST(ObjectUrlTest, TakesAddressesApart) {
  const absl::StatusOr<ObjectUrl> s3 = ParseObjectUrl("s3://corpora/c4/en 1?.tokens");
  ASSERT_TRUE(s3.ok()) << s3.status();
  EXPECT_EQ(s3->scheme, Scheme::kS3);
  EXPECT_EQ(s3->host, "corpora");
  EXPECT_EQ(s3->key, "c4/en 1?.tokens");
  const absl::StatusOr<ObjectUrl> web = ParseObjectUrl("https://data.example.org:8443/a%20b");
  ASSERT_TRUE(web.ok()) << web.status();
  EXPECT_EQ(web->scheme, Scheme::kHttps);
  EXPECT_EQ(web->host, "data.example.org:8443");
  EXPECT_EQ(web->key, "a%20b");
  EXPECT_TRUE(ParseObjectUrl("gs://b/k").ok());
  EXPECT_TRUE(ParseObjectUrl("s3://a..b/..;k/...").ok());
  EXPECT_TRUE(ParseObjectUrl("https://host/a;v=1/b").ok());
  EXPECT_TRUE(ParseObjectUrl("http://127.0.0.1:9000/k").ok());
}

TEST(ObjectUrlTest, RefusesWhatItCannotOrShouldNotRead) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"hf://user/set", "begins with s3://"},
      {"file:///etc/passwd", "begins with s3://"},
      {"s3://", "no name of a bucket"},
      {"s3:///key", "no name of a bucket"},
      {"s3://../key", "no name of a bucket"},
      {"gs://./key", "no name of a bucket"},
      {"s3://bucket", "names no object"},
      {"s3://bucket/", "names no object"},
      {"s3://bucket/a/../b", "\"..\""},
      {"s3://bucket/./b", "\"..\""},
      {"https://host/a/..;x/b", "\"..\""},
      {"https://host/a/.;/b", "\"..\""},
      {"s3://bucket/a\nb", "control character"},
      {"s3://key:secret@bucket/k", "credentials belong to the node"},
      {"https://user:secret@host/k", "credentials belong to the node"},
      {"https://host/k?X-Amz-Signature=1", "credentials belong to the node"},
      {"https://host/k#x", "query or fragment"},
      {"https://host/a/%2E%2e/b", "hides a point"},
      {"https://host/a%2fb", "hides a point"},
      {"https://host/a b", "%20"},
      {"https://Host/k", "lower case"},
      {"https:///k", "no host"},
      {"http://example.org/k", "plain text"},
      {"http://127.0.0.1.example.org/k", "plain text"},
  };
  EXPECT_FALSE(ParseObjectUrl("s3://b/" + std::string(2048, 'k')).ok());
  for (const auto& [text, what] : cases) {
    const absl::Status status = ParseObjectUrl(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(absl::StrContains(status.message(), what)) << text << ": " << status;
  }
}

TEST(ObjectUrlTest, APathIsNoAddress) {
  for (const char* path : {"/data/a.tokens", "a.tokens", "../a", "s3:/b/k", "://b", "a/b://c"}) {
    EXPECT_FALSE(IsObjectUrl(path)) << path;
  }
  for (const char* address : {"s3://b/k", "hf://x", "https://"}) {
    EXPECT_TRUE(IsObjectUrl(address)) << address;
  }
}

TEST(ObjectUrlTest, PrefixesAllowWholeParts) {
  EXPECT_TRUE(IsAllowedUrl({"s3://"}, "s3://any/key"));
  EXPECT_TRUE(IsAllowedUrl({"s3://corpora"}, "s3://corpora/c4"));
  EXPECT_TRUE(IsAllowedUrl({"gs://x", "s3://corpora/"}, "s3://corpora/c4"));
  EXPECT_TRUE(IsAllowedUrl({"s3://corpora/c4"}, "s3://corpora/c4"));
  EXPECT_TRUE(IsAllowedUrl({"s3://corpora/c4"}, "s3://corpora/c4/en"));
  EXPECT_FALSE(IsAllowedUrl({}, "s3://corpora/c4"));
  EXPECT_FALSE(IsAllowedUrl({"s3://corpora"}, "s3://corpora-private/c4"));
  EXPECT_FALSE(IsAllowedUrl({"s3://corpora/c4"}, "s3://corpora/c4-private"));
  EXPECT_FALSE(IsAllowedUrl({"https://data.example"}, "https://data.example.org/x"));
  EXPECT_FALSE(IsAllowedUrl({"https://data.example"}, "https://data.example:81/x"));
}

TEST(ObjectUrlTest, ChecksPrefixes) {
  for (const char* good : {"s3://", "s3://b", "s3://b/a/", "https://host", "http://localhost:1"}) {
    EXPECT_TRUE(CheckUrlPrefix(good).ok()) << good;
  }
  for (const char* bad : {"", "/data", "s3:", "ftp://x", "http://example.org", "s3://b/../c",
                          "s3://..", "https://h/..;/c", "https://Host"}) {
    EXPECT_FALSE(CheckUrlPrefix(bad).ok()) << bad;
  }
}

TEST(ObjectUrlTest, EncodesKeys) {
  EXPECT_EQ(EncodedKey("a/B-9_.~"), "a/B-9_.~");
  EXPECT_EQ(EncodedKey("a b+c\xc3\xa4?=%"), "a%20b%2Bc%C3%A4%3F%3D%25");
}

}  // namespace
}  // namespace paceline
