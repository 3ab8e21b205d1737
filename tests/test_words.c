/* tags: asan */
/* Promises: words of a command line mean what their help says, or nothing; any text becomes a JSON string. */
#include "check.h"
#include "json_text.h"
#include "words.h"

static void test_numbers(void)
{
    static const char *const refused[] = {"", " ", "x", "5x", "nan", "inf", "-1", "11", "1e9"};
    static const char *const broken[] = {"0.5", "1e-3", "9.99"};
    double n;
    int64_t whole;
    int bad = !word_number("0", 0, 10, &n) || !word_number("2.5", 0, 10, &n) || n != 2.5 ||
              !word_whole("10", 0, 10, &whole) || whole != 10;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        bad += word_number(refused[i], 0, 10, &n) || word_whole(refused[i], 0, 10, &whole);
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        bad += word_whole(broken[i], 0, 10, &whole);
    check(bad == 0, "numbers within their bounds, and nothing else");
}

static void test_bytes(void)
{
    static const struct {
        const char *word;
        double bytes;
    } good[] = {{"0", 0},     {"7", 7},          {"1K", 1024},         {"1k", 1024},
                {".5K", 512}, {"1.5M", 1572864}, {"2G", 2147483648.0}, {"1e3", 1000}};
    static const char *const refused[] = {"", "K", ".", "-1", "+1", " 1", "1T", "1KK", "1K%", "1%", "1 K", "nan"};
    double n;
    int bad = !word_bytes("2M", 1000, &n) || n != 2e6;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        bad += !word_bytes(good[i].word, 1024, &n) || n != good[i].bytes;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        bad += word_bytes(refused[i], 1024, &n);
    check(bad == 0, "bytes with K, M or G behind them");
    bad = !word_percent("12.5%", &n) || n != 12.5;
    bad += word_percent("12", &n) || word_percent("%", &n) || word_percent("1K%", &n) || word_percent("-1%", &n) ||
           word_percent("1%%", &n);
    check(bad == 0, "percentages");
}

static void test_names(void)
{
    static const char *const names[] = {"one", "two", NULL};
    check(word_name("two", names) == 1 && word_name("one", names) == 0 && word_name("three", names) == -1 &&
              word_name("", names) == -1,
          "names, to the letter");
}

static int writes(const char *text, const char *expected)
{
    char got[64] = "";
    FILE *file = tmpfile();
    if (!file)
        return 0;
    json_text(file, text);
    rewind(file);
    const size_t n = fread(got, 1, sizeof got - 1, file);
    fclose(file);
    return n == strlen(expected) && strcmp(got, expected) == 0;
}

static void test_json(void)
{
    check(writes("", "\"\"") && writes("a\"b\\c", "\"a\\\"b\\\\c\"") && writes("\n\x7f", "\"\\u000a\\u007f\""),
          "what JSON sets apart is escaped");
    check(writes("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""), "UTF-8 stays");
    check(writes("\xe9", "\"\\u00e9\"") && writes("\xc3", "\"\\u00c3\"") && writes("\xc0\x80", "\"\\u00c0\\u0080\"") &&
              writes("\xed\xa0\x80", "\"\\u00ed\\u00a0\\u0080\"") &&
              writes("\xf4\x90\x80\x80", "\"\\u00f4\\u0090\\u0080\\u0080\""),
          "what is no UTF-8 is taken byte by byte");
}

int main(void)
{
    test_numbers();
    test_bytes();
    test_names();
    test_json();
    return check_end();
}
