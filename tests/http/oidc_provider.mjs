// A certified OpenID provider for test_oidc_in_chromium.py: node oidc_provider.mjs FOLDER JSON. It asks for a name and any password.
const { folder, host, port, client, tokenLife } = { folder: process.argv[2], ...JSON.parse(process.argv[3]) };
const { default: Provider } = await import(`${folder}/node_modules/oidc-provider/lib/index.js`);

const provider = new Provider(`http://${host}:${port}`, {
    clients: [{ ...client, grant_types: ["authorization_code", "refresh_token"] }],
    issueRefreshToken: async () => true,
    ttl: { AccessToken: tokenLife, IdToken: 60, RefreshToken: 600, Session: 600, Grant: 600, Interaction: 600 },
    claims: { openid: ["sub"] },
    cookies: { keys: ["a key of this test"] },
});
provider.listen(port, host, () => console.log("listening"));
