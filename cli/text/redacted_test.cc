#include "cli/text/redacted.h"

#include "gtest/gtest.h"

namespace paceline {
namespace {

TEST(RedactedTest, ValuesOfSecretNamesAreRemoved) {
  EXPECT_EQ(Redacted("password=hunter2 user=ann"), "password=[removed] user=ann");
  EXPECT_EQ(Redacted(R"("api_key": "abc", "x": 1)"), R"("api_key": "[removed]", "x": 1)");
  EXPECT_EQ(Redacted("WANDB_API_KEY=123abc"), "WANDB_API_KEY=[removed]");
  EXPECT_EQ(Redacted("db_password: 'p w'"), "db_password: '[removed] w'");
  EXPECT_EQ(Redacted(R"({\"token\": \"abc\"})"), R"({\"token\": \"[removed]\"})");
}

TEST(RedactedTest, KnownFormsAreRemoved) {
  EXPECT_EQ(Redacted("Authorization: Bearer abcdefgh123"), "Authorization: Bearer [removed]");
  EXPECT_EQ(Redacted("https://ann:pw@h/x"), "https://[removed]@h/x");
  EXPECT_EQ(Redacted("key AKIAABCDEFGHIJKLMNOP."), "key [removed].");
  EXPECT_EQ(Redacted("hf_abcdefghijklmnopqrst"), "[removed]");
  EXPECT_EQ(Redacted("a\n-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nb"),
            "a\n[removed]\nb");
  EXPECT_EQ(Redacted("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"), "[removed]");
}

TEST(RedactedTest, FiguresAndUsualTextStay) {
  for (const char* text :
       {"step=48 loss=2.9 tokens_per_s=18089 mfu=0.13", "tokenize --bytes DIR", "key: value",
        "rank 1 on b: 10.0.0.1:7450", "no token file at /data/train.tokens"}) {
    EXPECT_EQ(Redacted(text), text);
  }
}

TEST(RedactedTest, TwiceIsAsOnce) {
  const std::string once = Redacted("token=abc https://a:b@c");
  EXPECT_EQ(Redacted(once), once);
}

}  // namespace
}  // namespace paceline
